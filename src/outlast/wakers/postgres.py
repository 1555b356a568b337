"""Wakes by a notification in Postgres, and hears such: whoever listens on its channel starts a worker.

A notification reaches those that listen at that moment and nobody later, so a listener looks for itself whenever it
has connected, and from time to time besides. The extra `outlast[postgres]` brings the driver.
"""

import asyncio
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import anyio

from outlast.errors import BadInput
from outlast.logs import logger
from outlast.waker import TIMEOUT_S, Hint, hint_of, read_hint, said_in_vain

CHANNEL: Final = "outlast_wake"
MISSING: Final = "To wake through Postgres, asyncpg must be installed: pip install 'outlast[postgres]'"
NOTIFY: Final = "select pg_notify($1, $2)"
ALIVE_S: Final = 30.0
"""Between two looks whether the connection of a listener still lives."""
FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 10.0
"""Before it connects again."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OURS: Final = frozenset({"channel", "schema", "pooler", "direct", "connections"})
"""Options of the URL that are not the driver's: those of a World are let stand, so that its URL can be used."""

log = logger("outlast.waker")


@dataclass(frozen=True, slots=True)
class Place:
    """What a URL says."""

    dsn: str
    direct: str
    """Past a pooler, which hears nothing."""
    channel: str


def read_place(url: str) -> Place:
    """Read `postgres://…?channel=NAME`; the URL of a World will do.

    Raises:
        BadInput: it cannot be used.
    """
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise BadInput(detail="The address to wake at in Postgres is no URL.") from None
    ours = {name: value for name, value in options if name in _OURS}
    channel = ours.get("channel", CHANNEL)
    if not _NAME.fullmatch(channel):
        raise BadInput(detail="A channel to wake by is 1 to 63 of a-z, 0-9, '_', beginning with a letter.")
    parts = parts._replace(query=urlencode([(name, value) for name, value in options if name not in _OURS]))
    return Place(urlunsplit(parts), urlunsplit(_directly(parts, ours.get("direct", ""))), channel)


def _directly(parts: SplitResult, host: str) -> SplitResult:
    credentials, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{credentials}{at}{host}") if host else parts


class PostgresWaker:
    """Sends `{"session": …, "tenant": …}` on a channel, over a connection for each hint.

    Args:
        url: the database, as for a World there; `channel=` names another channel than `outlast_wake`.
        timeout_s: seconds that a hint may take.

    Raises:
        BadInput: the URL cannot be used.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._place = read_place(url)
        self._timeout_s = timeout_s

    async def wake(self, tenant: str, session: str) -> None:
        try:
            async with asyncio.timeout(2 * self._timeout_s):
                connection = await _connect(self._place.dsn, self._timeout_s)
                try:
                    await connection.fetch(NOTIFY, self._place.channel, hint_of(tenant, session))
                finally:
                    connection.terminate()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, a sweep finds the session
            reason = str(error) if isinstance(error, BadInput) else type(error).__name__
            said_in_vain(log, session, reason)


async def listen(url: str, told: Callable[[Hint | None], None]) -> NoReturn:
    """Hear the hints that `PostgresWaker` sends, until cancelled; `told` gets each, and None where some were missed.

    A connection that is lost, or cannot be made, is made again, after a pause that grows while none lasts.

    Raises:
        BadInput: the URL cannot be used, or the driver is not here.
    """
    place, pause_s = read_place(url), FIRST_PAUSE_S
    while True:
        try:
            reason = await _hear(await _connect(place.direct, TIMEOUT_S), place.channel, told)
        except BadInput:
            raise
        except Exception as error:  # noqa: BLE001 - handled: said, and tried again
            reason, pause_s = type(error).__name__, min(LAST_PAUSE_S, 2 * pause_s)
        else:
            pause_s = FIRST_PAUSE_S
            told(None)  # some may be missed
        log.warning("hints are not heard now (%s); another connection is made", reason)
        await asyncio.sleep(pause_s)


async def _hear(connection: Any, channel: str, told: Callable[[Hint | None], None]) -> str:
    """Hear until the connection is lost; returns how that was, or raises why nothing can be heard at all."""
    lost = asyncio.Event()

    def end(_: object) -> None:
        lost.set()

    def hear(_connection: object, _pid: int, _channel: str, text: str) -> None:
        told(read_hint(text))

    connection.add_termination_listener(end)
    try:
        await connection.add_listener(channel, hear)
        told(None)  # what came before nobody heard
        return await _last(connection, lost)
    finally:
        connection.terminate()


async def _last(connection: Any, lost: asyncio.Event) -> str:
    while True:
        with anyio.move_on_after(ALIVE_S):
            await lost.wait()
            return "it was closed"
        try:
            await connection.fetch("select 1")
        except Exception as error:  # noqa: BLE001 - handled: however it was lost, another is made
            return type(error).__name__


async def _connect(dsn: str, patience_s: float) -> Any:
    """A connection; behind a pooler too, which knows no prepared statement of ours."""
    try:
        driver: Any = importlib.import_module("asyncpg")
    except ImportError:
        raise BadInput(detail=MISSING) from None
    return await driver.connect(dsn, timeout=patience_s, command_timeout=patience_s, statement_cache_size=0)


def postgres_waker(url: str, _token: str = "") -> PostgresWaker:
    """The waker of `postgres://…`.

    Raises:
        BadInput: the URL cannot be used.
    """
    return PostgresWaker(url)
