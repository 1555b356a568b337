"""Hears what other processes tell, and looks again every second or so for what a lost notification would have told."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio

from outlast.world.hints import ANYONE, Board, inbox_key, key, ready_key
from outlast.worlds.postgres.database import Connection, Rows
from outlast.worlds.postgres.hints import read_hint
from outlast.worlds.postgres.pool import FIRST_PAUSE_S, LAST_PAUSE_S, end
from outlast.worlds.postgres.statements import statements
from outlast.worlds.postgres.texts import stored

SQL: Final = statements(__file__)
LOOK: Final = SQL["look"]
LOOK_LIMIT_S: Final = 3.0
DEAF_POLL_S: Final = 0.2
"""Between two looks where there is no server to be listened to."""


@dataclass(frozen=True, slots=True)
class Mail:
    """What this process must know of how the others tell."""

    channel: str
    ours: str
    """The sender whose notifications are this process's own."""
    look: str
    """The statement that tells how sessions stand."""


class Poll:
    """Listens and polls for one opening, from when anybody first waits. Belongs to one event loop.

    * While it listens, a poll runs every `poll_s` on the same connection, which shows that the connection still lives.
    * When the connection is lost, everybody is told (something may have been missed), again when there is a new one.
    * Where only a pooler can be reached, the poll is all there is, and is quicker.
    """

    def __init__(
        self,
        board: Board,
        mail: Mail,
        *,
        connect: Callable[[], Awaitable[Connection]] | None,
        ask: Callable[..., Awaitable[Rows]],
        poll_s: float,
    ) -> None:
        """Ready; nothing happens before `watch`.

        Args:
            board: who is told.
            mail: where others tell.
            connect: makes a connection that can be listened to; None if there is no server for that.
            ask: runs a statement on some connection.
            poll_s: seconds between two looks.
        """
        self._board = board
        self._mail = mail
        self._connect = connect
        self._ask = ask
        self._poll_s = poll_s if connect is not None else min(poll_s, DEAF_POLL_S)
        self._watched: Counter[tuple[str, str | None]] = Counter()
        self._seen: dict[tuple[str, str | None], list[Any]] = {}
        self._task: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()
        """Set while notifications are heard."""

    def watch(self, tenant: str, session: str | None) -> None:
        """Somebody waits for a session, or (None) for any that becomes ready."""
        self._watched[tenant, session] += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def unwatch(self, tenant: str, session: str | None) -> None:
        """One less waits for it."""
        self._watched[tenant, session] -= 1
        if self._watched[tenant, session] <= 0:
            del self._watched[tenant, session]
            self._seen.pop((tenant, session), None)

    async def close(self) -> None:
        """Look and listen no more."""
        if self._task is not None:
            self._task.cancel()
            with anyio.CancelScope(shield=True), suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                heard = await (self._poll() if self._connect is None else self._listen(self._connect))
            except Exception:  # noqa: BLE001 handled: asked again; whoever reads meanwhile is told what is wrong
                heard = False
            pause_s = FIRST_PAUSE_S if heard else min(LAST_PAUSE_S, pause_s * 2)
            self.listening.clear()
            self._tell_all()
            await asyncio.sleep(pause_s)

    async def _poll(self) -> bool:
        """Look once."""
        await asyncio.sleep(self._poll_s)
        await self._look(self._ask)
        return True

    async def _listen(self, connect: Callable[[], Awaitable[Connection]]) -> bool:
        """Listen until the connection is lost."""
        connection = await connect()
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(self._mail.channel, self._hear)
            self.listening.set()
            self._tell_all()
            while not lost.is_set():
                with anyio.move_on_after(self._poll_s):
                    await lost.wait()
                # A connection whose other end is gone without a word says nothing either way.
                with anyio.fail_after(LOOK_LIMIT_S):
                    await self._look(connection.fetch)
            return True
        finally:
            with anyio.CancelScope(shield=True):
                await end(connection)

    def _hear(self, _: object, __: int, ___: str, payload: str) -> None:
        self._board.tell(read_hint(payload, self._mail.ours, self._board))

    def _tell_all(self) -> None:
        self._board.tell(self._board.keys)

    async def _look(self, ask: Callable[..., Awaitable[Rows]]) -> None:
        if not self._watched:
            return
        told = {ANYONE} | {ready_key(tenant) for tenant, session in self._watched if session is None}
        places = [(tenant, session) for tenant, session in self._watched if session is not None]
        tenants, sessions = [stored(tenant) for tenant, _ in places], [session for _, session in places]
        found: Rows = await ask(self._mail.look, tenants, sessions) if places else ()
        for ordinal, *stand in found:
            place = places[int(ordinal) - 1]
            if place in self._watched and self._seen.get(place) != stand:
                self._seen[place] = stand
                told |= {key(*place), inbox_key(*place)}
        self._board.tell(told)
