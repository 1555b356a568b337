"""The tables of a World, and whether what is found in its schema can be used; nothing foreign is touched."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from typing import Final

from outlast.errors import WorldForeign, WorldReadOnly, WorldTooNew, WorldTooOld, WorldUnavailable
from outlast.worlds.postgres.database import Connection
from outlast.worlds.postgres.failures import code_of, unavailable
from outlast.worlds.postgres.statements import in_schema, statements

SQL: Final = statements(__file__)
STEPS: Final = ("schema.sql",)
"""Files of the scripts that lead from each layout to the next, the first from nothing to layout `FIRST`. Once released,
none is ever changed; until then whoever changes the first raises `FIRST`."""
FIRST: Final = 2
"""The oldest layout that is brought up to date: those before it were never released."""
OLDEST: Final = 140_000
"""The oldest server that the statements were written for: Postgres 14."""
MARK: Final = "outlast world"


def scripts() -> tuple[str, ...]:
    """What makes each layout of the one before it."""
    files = resources.files("outlast.worlds.postgres")
    return tuple(files.joinpath(name).read_text(encoding="utf-8") for name in STEPS)


def newest(steps: Sequence[str]) -> int:
    """The layout to which all of `steps` lead."""
    return FIRST - 1 + len(steps)


async def prepare(
    connection: Connection, world: str, schema: str, steps: Sequence[str], *, begin: str = "begin"
) -> None:
    """Make the tables if there are none, and bring an older layout up to date.

    Everything happens in one transaction under an advisory lock: of processes that open at once one does it, and nobody
    ever sees half of it.

    Raises:
        WorldForeign: there is something else in the schema. It is left as it is.
        WorldTooNew: a newer outlast made it.
        WorldTooOld: one from before the first release did.
        WorldReadOnly: there is nothing and nothing can be made.
        WorldUnavailable: the server is too old, or its database is not in UTF-8.
    """
    try:
        # In a transaction, so that a pooler in between has it all seen by one server.
        await connection.execute(begin)
        try:
            await _check_server(connection, world)
            if await _layout(connection, world, schema, steps) < newest(steps):
                await _make(connection, world, schema, steps)
        except BaseException:
            with suppress(Exception):  # the error that is on its way says more
                await connection.execute("rollback")
            raise
        await connection.execute("commit")
    except Exception as error:
        if code_of(error) == "42501":
            reason = f"its tables are missing or of an older layout, and this user may not make them: {error}"
            raise WorldReadOnly(world=world, reason=reason) from error
        raise unavailable(world, error) from error


async def _make(connection: Connection, world: str, schema: str, steps: Sequence[str]) -> None:
    localized = in_schema(schema)
    await connection.fetch(SQL["lock"], f"outlast:{schema}")
    found = await _layout(connection, world, schema, steps)
    if found == newest(steps):
        return
    if not await connection.fetch(SQL["schema"], schema):
        await connection.execute(f'create schema "{schema}"')
    if found == 0:
        await connection.execute(localized(SQL["layout"]))
    for step in steps[found - FIRST + 1 if found else 0 :]:
        await connection.execute(localized(step))
    await connection.fetch(localized(SQL["stamp"]), newest(steps))


async def _check_server(connection: Connection, world: str) -> None:
    [[version, encoding]] = await connection.fetch(SQL["server"])
    if version < OLDEST:
        reason = f"its server is Postgres {version // 10000}; {OLDEST // 10000} or newer is needed"
        raise WorldUnavailable(world=world, reason=reason)
    if encoding != "UTF8":
        raise WorldForeign(world=world, reason=f"its database is encoded in {encoding}; UTF8 is needed")


async def _layout(connection: Connection, world: str, schema: str, steps: Sequence[str]) -> int:
    """The layout that is there; 0 if there is nothing."""
    [[tables, mark]] = await connection.fetch(SQL["tables"], schema)
    if not tables:
        return 0
    if mark != MARK:
        raise WorldForeign(world=world, reason=f"its schema {schema!r} holds tables of another program")
    try:
        [[found]] = await connection.fetch(in_schema(schema)(SQL["version"]))
    except Exception as error:
        if code_of(error) == "42501":
            raise WorldUnavailable(world=world, reason=f"this user may not read it: {error}") from error
        raise
    if found > newest(steps):
        raise WorldTooNew(world=world, found=found, known=newest(steps))
    if found < FIRST:
        remedy = f"drop the schema {schema!r}, or name another in the address,"
        raise WorldTooOld(world=world, found=found, needed=FIRST, remedy=remedy)
    return found
