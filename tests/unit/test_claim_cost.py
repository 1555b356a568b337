"""What a claim costs where a hundred thousand sessions are ready."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import apsw
import pytest

from outlast.testing.world_contract.blocks import TAKEOVER, offer, opened, renew
from outlast.world import Limits, WorkerOffer
from outlast.worlds.postgres import claims, open_postgres
from outlast.worlds.postgres.address import parse_address
from outlast.worlds.postgres.database import connect
from outlast.worlds.postgres.statements import in_schema
from outlast.worlds.sqlite import SqliteWorld, open_sqlite
from outlast.worlds.sqlite.claims import find_ready
from outlast.worlds.sqlite.transaction import Query, Transaction
from tests.servers.postgres import PostgresServer

ROUTES = """
insert into route (tenant, agent, placement, format, priority)
values (1, 'coder', 'any', 1, 5), (1, 'writer', 'any', 1, 0), (1, 'writer', 'any', 1, 5)
"""
SESSIONS = """
with recursive number (n) as (select 2 union all select n + 1 from number where n < 100000)
insert into session (tenant, id, state, seq, fence, format, snapshot_seq, turn_open, parked, wake_at_s, status, worker,
    route, ready_at, waiting, arrivals, change, created_at_s, updated_at_s)
select 1, 's' || n, 0, 1, 0, 1, 0, 1, 0, null, '', case when n % 1000 = 0 then 'w' || (n / 10000) end,
    1 + n % 4, case when n % 3 > 0 then n - 1125899906842624.0 else n end, 0, 0, n, 0, 0 from number
"""
"""Two thirds in line, a third woken; a hundred held by eleven workers."""
OFFER = replace(offer("me"), agents=frozenset({"coder", "writer"}), turns={"writer": 7, "coder": 2})


@pytest.fixture
async def world() -> AsyncGenerator[SqliteWorld]:
    with TemporaryDirectory() as directory:
        async with open_sqlite(Path(directory) / "world.db") as opened_world:
            yield opened_world


def _fill(transaction: Transaction) -> None:
    transaction.run(ROUTES)
    transaction.run(SESSIONS)


async def _cost(world: SqliteWorld, asked: WorkerOffer) -> int:
    """How many instructions SQLite carries out to find a session that fits the offer."""
    deadline = world.store.workers.deadline

    def look(query: Query) -> int:
        database = cast("apsw.Connection", query.run.__self__)
        done = 0

        def count() -> bool:
            nonlocal done
            done += 1
            return False

        database.set_progress_handler(count, 1)
        try:
            assert find_ready(query, "default", asked, deadline) is not None
        finally:
            database.set_progress_handler(None)
        return done

    return await world.store.reader.read(look)


async def test_a_claim_reads_a_few_entries_of_its_indexes_however_many_sessions_are_ready(
    world: SqliteWorld,
) -> None:
    await opened(world, "s1")
    few = await _cost(world, OFFER)
    assert world.store.writer is not None
    await world.store.writer.write(_fill)
    for worker in ("me", *(f"w{number}" for number in range(11))):
        renew(world, worker)
    many = await _cost(world, OFFER)
    within = await _cost(world, replace(OFFER, limits=Limits({"coder": 60}, 101)))
    lost = await _cost(world, replace(OFFER, dead=frozenset(f"w{worker}" for worker in range(11))))
    assert many < few + 1_500, (few, many)
    assert within < many + 100 * 40, "it counts the hundred that are held, and no more"
    assert lost < many + 11 * 4 * 80, "it looks at each route of each worker that is lost"
    assert await world.claim(replace(OFFER, limits=Limits({"coder": 60}, 101)), TAKEOVER) is not None
    assert await world.claim(replace(OFFER, limits=Limits(whole=101)), TAKEOVER) is None


IN_POSTGRES = """
insert into outlast.route (tenant, agent, placement, format, priority)
values (1, 'coder', 'any', 1, 5), (1, 'writer', 'any', 1, 0), (1, 'writer', 'any', 1, 5);
insert into outlast.session (tenant, state, route, id, created_at_s, worker, ready_at, era, change, format, fence, seq,
    deltas, snapshot_seq, waiting, arrivals, turn_open, parked, updated_at_s, status)
select 1, 0, 1 + n % 4, 's' || n, 0, case when n % 1000 = 0 then 'w' || n / 10000 end,
    case when n % 3 > 0 then n - 1125899906842624 else n end, 0, n, 1, 0, 1, 0, 0, 0, 0, true, false, 0, ''
from generate_series(2, 100000) n
"""
ASKED = """execute choose(1, '{coder,writer}', '{any}', 1, '{}', null, '{1,0}', '{f,t}', '{t,f}', %s)"""


@pytest.mark.server
async def test_a_claim_in_postgres_reads_a_few_pages_however_many_sessions_are_ready(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        await opened(world, "s1")
        localized = in_schema(world.store.address.schema)
        for worker in ("me", *(f"w{number}" for number in range(11))):
            renew(world, worker)
        connection = await connect(parse_address(url), direct=False, connect_s=5.0, patience_s=30.0)
        # The plan is made while there is one session, as that of a connection that was opened early.
        await connection.execute(f"prepare choose as {localized(claims.SQL['choose'])}")
        await connection.fetch(ASKED % "'{}', '{}', null")
        await connection.execute(localized(IN_POSTGRES))
        pages: list[int] = []
        for limits in ("'{}', '{}', null", "'{coder}', '{60}', 101"):
            asked = f"explain (analyze, buffers, format json) {ASKED % limits}"
            await connection.fetch(asked)  # the first one makes the entries of the index say what they can
            [[plan]] = await connection.fetch(asked)
            facts = json.loads(plan)[0]["Plan"]
            assert facts["Actual Rows"] == 1
            pages.append(facts["Shared Hit Blocks"] + facts["Shared Read Blocks"])
        await connection.close(timeout=5.0)
        assert pages[0] < 200, pages
        assert pages[1] < 1_500, pages
