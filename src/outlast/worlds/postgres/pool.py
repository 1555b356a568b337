"""The connections of this process that read and write: bounded, used again, replaced when they are lost."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from outlast.errors import WorldUnavailable
from outlast.worlds.postgres.database import Connection, Rows, Value
from outlast.worlds.postgres.failures import AGAIN, code_of, unavailable

CLOSE_LIMIT_S: Final = 2.0
TRIES: Final = 8
"""For what the server rolled back because of others; each time somebody else got through."""
FIRST_PAUSE_S: Final = 0.05
LAST_PAUSE_S: Final = 1.0

Connect: Final = Callable[[], Awaitable[Connection]]


class Pool:
    """Connections to be borrowed for one statement or one transaction. Belongs to one event loop.

    What comes back last is lent first: it has our statements prepared. Whatever is uncertain about a connection ends
    it.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        world: str,
        *,
        size: int,
        begin: str | None,
        patience_s: float,
    ) -> None:
        """Ready; nothing is connected yet.

        Args:
            connect: makes a connection.
            world: what a person calls the World.
            size: how many there may be at once.
            begin: what a transaction begins with where each statement must be wrapped in one, None where not.
            patience_s: how long somebody may wait for a connection, and for one to be made while the server is away.
        """
        self._connect = connect
        self._world = world
        self._idle: list[Connection] = []
        self._open = 0
        self._size = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begin = begin
        self._patience_s = patience_s
        self._closed = False

    async def rows(self, statement: str, *bindings: Value) -> Rows:
        """Run one statement as a transaction of its own.

        Raises:
            WorldUnavailable: it may have been done or not.
            WorldReadOnly, WorldFull: it was not done.
        """
        tries = 0
        while True:
            tries += 1
            connection = await self._take()
            try:
                if self._begin is None:
                    found = await connection.fetch(statement, *bindings)
                else:
                    found = await self._run(connection, self._begin, statement, bindings)
            except BaseException as error:
                await self._give_after(connection, error)
                if code_of(error) in AGAIN and tries < TRIES:
                    continue
                if isinstance(error, Exception):
                    raise unavailable(self._world, error) from error
                raise
            self._give(connection)
            return found

    async def _run(
        self, connection: Connection, begin: str, statement: str, bindings: tuple[Value, ...]
    ) -> Rows:
        # What is prepared without a name lives on in the server that the transaction holds, and nowhere else.
        await connection.execute(begin)
        found = await connection.fetch(statement, *bindings)
        await connection.execute("commit")
        return found

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Several statements as one transaction.

        Raises:
            WorldUnavailable: it may have been done or not.
        """
        connection = await self._take()
        try:
            await connection.execute(self._begin or "begin")
            yield connection
            await connection.execute("commit")
        except BaseException as error:
            await self._give_after(connection, error, open_=True)
            if isinstance(error, Exception):
                raise unavailable(self._world, error) from error
            raise
        self._give(connection)

    async def _take(self) -> Connection:
        if self._closed:
            raise WorldUnavailable(world=self._world, reason="it was closed")
        while True:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._open -= 1
            if self._open < self._size:
                return await self._take_new()
            await self._wait()

    async def _take_new(self) -> Connection:
        self._open += 1
        try:
            return await connect_patiently(self._connect, self._world, self._patience_s)
        except BaseException:
            self._open -= 1
            self._wake()
            raise

    async def _wait(self) -> None:
        """Until a connection is idle, or may be made."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            with anyio.fail_after(self._patience_s):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # it was this one's turn: the next one's now
            if isinstance(error, TimeoutError):
                reason = f"all its connections were busy for {self._patience_s:g} s"
                raise WorldUnavailable(world=self._world, reason=reason) from None
            raise

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _give(self, connection: Connection) -> None:
        if self._closed or connection.is_closed():
            connection.terminate()
            self._open -= 1
        else:
            self._idle.append(connection)
        if self._waiting:
            self._wake()

    async def _give_after(self, connection: Connection, error: BaseException, *, open_: bool = False) -> None:
        """Keep a connection on which the server refused something; end any other."""
        sound = code_of(error) is not None and not connection.is_closed()
        if sound and (open_ or self._begin is not None):
            try:
                await connection.execute("rollback")
            except Exception:  # noqa: BLE001 handled: it ends below
                sound = False
        if not sound:
            connection.terminate()
        self._give(connection)

    async def close(self) -> None:
        """End all. Bounded."""
        self._closed = True
        idle, self._idle = self._idle, []
        with anyio.CancelScope(shield=True):
            for connection in idle:
                await end(connection)


async def end(connection: Connection) -> None:
    """End a connection, politely if that is quick."""
    try:
        await connection.close(timeout=CLOSE_LIMIT_S)
    except Exception:  # noqa: BLE001 handled: ended otherwise
        connection.terminate()


async def connect_patiently(
    connect: Callable[[], Awaitable[Connection]], world: str, patience_s: float
) -> Connection:
    """A connection; a server that is away or starting is asked again with growing pauses.

    Nothing was sent before, so that asking again repeats nothing.

    Raises:
        WorldUnavailable: it stayed away for `patience_s`, or it refuses.
    """
    loop = asyncio.get_running_loop()
    give_up, pause_s = loop.time() + patience_s, FIRST_PAUSE_S
    while True:
        try:
            return await connect()
        except Exception as error:
            if not _passes(error) or loop.time() + pause_s >= give_up:
                raise unavailable(world, error) from error
        await asyncio.sleep(pause_s)
        pause_s = min(LAST_PAUSE_S, pause_s * 2)


def _passes(error: Exception) -> bool:
    """It is of a kind that passes: no server, one that starts or stops, or one that has no room for another."""
    code = code_of(error)
    return isinstance(error, OSError) if code is None else code[:2] in {"57", "53", "08"}
