"""A connection to Postgres, as far as it is used here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

import anyio

from outlast.errors import BadInput
from outlast.worlds.postgres.address import Address

try:
    import asyncpg  # pyright: ignore[reportMissingTypeStubs] it brings none
except ImportError as error:
    raise BadInput(
        detail="A World in Postgres needs the driver asyncpg. Install it with: pip install 'outlast[postgres]'"
    ) from error

driver: Final = cast("Any", asyncpg)
"""Its own annotations are partial."""

Value: TypeAlias = str | bytes | int | float | bool | Sequence[Any] | None
Rows: TypeAlias = Sequence[tuple[Any, ...]]
Listener: TypeAlias = Callable[[object, int, str, str], None]

STATEMENTS: Final = 200
"""Prepared statements that a connection keeps: all of ours."""


class Connection(Protocol):
    """A connection. Does one thing at a time."""

    async def fetch(self, statement: str, /, *bindings: Value) -> Rows:
        """Run one statement; all its rows."""
        ...

    async def execute(self, statements: str, /) -> str:
        """Run statements without bindings."""
        ...

    async def add_listener(self, channel: str, callback: Listener) -> None:
        """Call back for every notification."""
        ...

    def add_termination_listener(self, callback: Callable[[object], None]) -> None:
        """Call back when the connection has ended."""
        ...

    def is_closed(self) -> bool:
        """It has ended."""
        ...

    async def close(self, *, timeout: float) -> None:  # noqa: ASYNC109 the driver's own
        """End it."""
        ...

    def terminate(self) -> None:
        """End it without a word."""
        ...


PLANS: Final[Mapping[str, str]] = {
    # Statements over arrays are the same whatever the arrays hold, and planning one anew costs more than running it.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    # Each is written for its indexes. A plan made while the tables were small must not scan them when they have grown.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


ISOLATION: Final = "read committed"
"""A statement that waited for a row judges what it then is; under another level it would only fail."""
NO_LIMIT: Final = (
    "select set_config('transaction_timeout', '0', {local})"
    " where current_setting('transaction_timeout', true) is not null"
)
"""Ours are bounded otherwise. Only servers from version 17 on know of it, and others refuse a setting that they do not
know."""


def settings_of(patience_s: float) -> dict[str, str]:
    """What holds for our statements, whatever the server, the database or the role say."""
    milliseconds = str(max(1, int(patience_s * 1000)))
    # The last two end what a process that died or froze left behind.
    limits = {
        "lock_timeout": "0",
        "statement_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
    }
    return {"synchronous_commit": "on", **PLANS, **limits}


def begin_of(patience_s: float) -> str:
    """What a transaction begins with behind a pooler: what a connection of our own says once is said each time."""
    said = [f"set local {name} = {value}" for name, value in settings_of(patience_s).items()]
    return "; ".join([f"begin isolation level {ISOLATION}", *said, NO_LIMIT.format(local="true")])


async def connect(address: Address, *, direct: bool, connect_s: float, patience_s: float) -> Connection:
    """A new connection; `direct` goes past the pooler, if there is one.

    Raises:
        Exception: whatever the system or the driver says.
    """
    past = direct and address.direct is not None
    pooled = address.pooled and not past
    settings = {
        "application_name": "outlast",
        "default_transaction_isolation": ISOLATION,
        **settings_of(patience_s),
    }
    dsn = address.direct if past else address.dsn
    connection = await driver.connect(
        dsn,
        timeout=connect_s,
        command_timeout=patience_s,
        # Behind a pooler the next transaction has another server, which knows no statement of ours.
        statement_cache_size=0 if pooled else STATEMENTS,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=0,
        # A pooler refuses settings that it does not know: there they are said in each transaction.
        server_settings=None if pooled else settings,
    )
    if not pooled:
        await _lift(connection)
    return cast("Connection", connection)


async def _lift(connection: Connection) -> None:
    """Take a limit away that its opening message could not."""
    try:
        with anyio.CancelScope(
            shield=True
        ):  # bounded by its patience: a connection is made whole or not at all
            await connection.execute(NO_LIMIT.format(local="false"))
    except BaseException:
        connection.terminate()
        raise
