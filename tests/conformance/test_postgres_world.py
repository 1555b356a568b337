"""What the World in Postgres promises beyond the contract: its tables, its connections, its races."""

import random
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeVar, get_args

import anyio
import msgspec
import pytest

from outlast.errors import (
    BadPayload,
    BlobUnknown,
    SessionErased,
    WorldForeign,
    WorldReadOnly,
    WorldTooNew,
    WorldTooOld,
    WorldUnavailable,
)
from outlast.opening import open_world
from outlast.testing.world_contract.blocks import (
    TAKEOVER,
    claimed,
    commit,
    find_claim,
    held,
    landed,
    offer,
    opened,
    pieces,
    published,
    put,
    read,
    renew,
    retire,
    sent,
    whole,
)
from outlast.world import Capability, Cursor, Input, Lease
from outlast.worlds.postgres import (
    Pace,
    claims,
    erase,
    follow,
    forks,
    inputs,
    liveness,
    open_postgres,
    poll,
    reads,
    store,
    together,
    writes,
)
from outlast.worlds.postgres.address import parse_address
from outlast.worlds.postgres.database import connect, driver
from outlast.worlds.postgres.layout import newest, prepare, scripts
from outlast.worlds.postgres.statements import in_schema
from tests.servers.pooler import pooler_to
from tests.servers.postgres import PostgresServer, free_port, run_sql
from tests.servers.relay import Moment, relay_to

pytestmark = pytest.mark.server

T = TypeVar("T")
SOON_S = 20.0
MOMENTS: tuple[Moment, ...] = get_args(Moment)
QUICK = Pace(poll_s=0.2)
NEVER = Pace(poll_s=3600.0)


def schema_of(url: str) -> str:
    return parse_address(url).schema


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
async def test_its_address_is_all_that_it_takes(
    postgres: PostgresServer, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_url().replace("postgres:", f"{scheme}:", 1)
    monkeypatch.setenv("OUTLAST_WORLD", url)
    async with open_world() as world:
        await held(world)
        assert world.name == f"postgres://127.0.0.1:{postgres.port}/postgres?schema={schema_of(url)}"
        assert world.capabilities == frozenset(Capability)


# Its tables


async def test_of_many_who_open_it_first_one_makes_its_tables(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with AsyncExitStack() as stack, anyio.create_task_group() as openers:

        async def enter() -> None:
            await stack.enter_async_context(open_postgres(url))

        for _ in range(6):
            openers.start_soon(enter)
    assert await run_sql(url, f"select version from {schema_of(url)}.layout") == [(newest(scripts()),)]


async def test_an_older_layout_is_brought_up_to_date_and_keeps_what_is_there(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        await held(world)
    steps = [
        *scripts(),
        "create table outlast.later (one int); alter table outlast.session add column more text",
    ]
    connection = await connect(parse_address(url), direct=False, connect_s=5.0, patience_s=5.0)
    for _ in range(2):
        await prepare(connection, "w", schema_of(url), steps)
    await connection.close(timeout=5.0)
    assert await run_sql(url, f"select version from {schema_of(url)}.layout") == [(newest(steps),)]
    assert await run_sql(url, f"select id, seq, more from {schema_of(url)}.session") == [("s", 2, None)]


async def test_a_step_that_fails_leaves_the_layout_as_it_was(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        await opened(world)
    steps = [*scripts(), "create table outlast.later (one int); select 1 / 0"]
    connection = await connect(parse_address(url), direct=False, connect_s=5.0, patience_s=5.0)
    with pytest.raises(WorldUnavailable, match="division by zero"):
        await prepare(connection, "w", schema_of(url), steps)
    await connection.close(timeout=5.0)
    async with open_postgres(url) as world:
        assert (await world.get("s")).seq == 1
    assert await run_sql(url, f"select to_regclass('{schema_of(url)}.later')") == [(None,)]


async def test_a_newer_layout_is_left_alone(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url):
        pass
    await run_sql(url, f"update {schema_of(url)}.layout set version = 99")
    with pytest.raises(WorldTooNew, match=r"has layout 99, this outlast knows up to 2"):
        async with open_postgres(url):
            pass
    assert await run_sql(url, f"select version from {schema_of(url)}.layout") == [(99,)]


async def test_a_layout_from_before_the_first_release_is_refused_with_what_to_do(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    async with open_postgres(url):
        pass
    await run_sql(url, f"update {schema_of(url)}.layout set version = 1")
    await run_sql(url, f"drop table {schema_of(url)}.spent")
    with pytest.raises(WorldTooOld, match=f"has layout 1, .* drop the schema '{schema_of(url)}'"):
        async with open_postgres(url):
            pass
    assert await run_sql(url, f"select version from {schema_of(url)}.layout") == [(1,)]


@pytest.mark.parametrize("table", ["users", "layout"])
async def test_a_schema_of_another_program_is_left_alone(postgres: PostgresServer, table: str) -> None:
    url = postgres.new_url()
    await run_sql(url, f"create schema {schema_of(url)}")
    await run_sql(url, f"create table {schema_of(url)}.{table} (version int)")
    with pytest.raises(WorldForeign, match="holds tables of another program"):
        async with open_postgres(url):
            pass
    there = "select count(*) from pg_class where relnamespace = $1::regnamespace"
    assert await run_sql(url, there, schema_of(url)) == [(1,)]


async def test_an_empty_schema_that_somebody_made_for_it_is_used(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    await run_sql(url, f"create schema {schema_of(url)}")
    async with open_postgres(url) as world:
        await opened(world)


async def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer) -> None:
    name = postgres.new_schema()
    await run_sql(postgres.url, f"create database {name} encoding 'SQL_ASCII' template template0")
    with pytest.raises(WorldForeign, match="encoded in SQL_ASCII; UTF8 is needed"):
        async with open_postgres(postgres.url_at(postgres.port, name)):
            pass


async def test_whoever_may_only_read_reads(postgres: PostgresServer) -> None:
    url, role = postgres.new_url(), postgres.new_schema()
    async with open_postgres(url) as world:
        lease = await held(world)
    schema = schema_of(url)
    await run_sql(url, f"create role {role} login")
    theirs = url.replace("postgres@", f"{role}@")
    with pytest.raises(WorldUnavailable, match="may not read it"):
        async with open_postgres(theirs):
            pass
    await run_sql(url, f"grant usage on schema {schema} to {role}")
    await run_sql(url, f"grant select on all tables in schema {schema} to {role}")
    async with open_postgres(theirs) as world:
        assert [there.header.seq for there in await whole(world, "s")] == [1, 2]
        assert len(await read(world, "s", 2)) == 2
        for write in (put(world, lease, commit(3, 1)), sent(world, "s", "in-1"), opened(world, "new")):
            with pytest.raises(WorldReadOnly, match="give this user write access"):
                await write
        with pytest.raises(WorldReadOnly):
            renew(world, "w1")


async def test_a_server_that_only_reads_says_so(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        lease = await held(world)
    async with open_postgres(f"{url}&default_transaction_read_only=on") as world:
        assert (await world.get("s")).seq == 2
        with pytest.raises(WorldReadOnly, match="read-only transaction"):
            await put(world, lease, commit(3, 1))


async def test_nothing_can_be_made_by_whoever_may_not(postgres: PostgresServer) -> None:
    role = postgres.new_schema()
    await run_sql(postgres.url, f"create role {role} login")
    with pytest.raises(WorldReadOnly, match="this user may not make them"):
        async with open_postgres(postgres.new_url().replace("postgres@", f"{role}@")):
            pass


async def test_tables_that_vanish_are_said_to_be_gone(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        await opened(world)
        await run_sql(url, f"drop schema {schema_of(url)} cascade")
        with pytest.raises(WorldForeign, match="its tables are gone"):
            await world.get("s")


async def test_a_server_that_is_not_there_is_said_so_at_once() -> None:
    began = time.perf_counter()
    with pytest.raises(WorldUnavailable, match=r"postgres://127\.0\.0\.1:\d+/db cannot be used") as caught:
        async with open_postgres(f"postgres://me:secret@127.0.0.1:{free_port()}/db"):
            pass
    assert time.perf_counter() - began < SOON_S
    assert "secret" not in str(caught.value)


# Its statements


MODULES: dict[str, dict[str, str]] = {
    module.__name__.rpartition(".")[2]: module.SQL
    for module in (claims, erase, follow, forks, inputs, liveness, poll, reads, store, together, writes)
}


@pytest.mark.parametrize("module", MODULES)
async def test_every_statement_finds_its_rows_by_an_index_though_planned_while_nothing_was_there(
    postgres: PostgresServer, module: str
) -> None:
    url = postgres.new_url()
    async with open_postgres(url):
        pass
    localized = in_schema(schema_of(url))
    connection = await connect(parse_address(url), direct=False, connect_s=5.0, patience_s=5.0)
    for name, statement in MODULES[module].items():
        count = max(map(int, re.findall(r"\$(\d+)", statement)), default=0)
        arguments = f"({', '.join(['null'] * count)})" if count else ""
        await connection.execute(f"prepare q_{name} as {localized(statement)}")
        plan = await connection.fetch(f"explain (costs off) execute q_{name}{arguments}")
        lines = [line for (line,) in plan]
        assert not [line for line in lines if "Seq Scan" in line], "\n".join(lines)
        by_change = [line for line in lines if "session_by_change" in line or "naming_by_blob" in line]
        assert not by_change or name in {"page", "erase_blobs"}, "\n".join(lines)
    await connection.close(timeout=5.0)


async def test_a_commit_waits_for_the_disk_whatever_the_database_says_and_a_delta_never(
    postgres: PostgresServer,
) -> None:
    name = postgres.new_schema()
    await run_sql(postgres.url, f"create database {name}")
    url = postgres.url_at(postgres.port, name)
    await run_sql(url, f"alter database {name} set synchronous_commit = off")
    asked = "select current_setting('synchronous_commit')"
    assert await run_sql(url, asked) == [("off",)]
    async with open_postgres(f"{url}?connections=1") as world:
        lease = await held(world)
        await published(world, lease, 2, b"delta")
        assert [tuple(row) for row in await world.store.rows(asked)] == [("on",)]
    with pooler_to(postgres.port) as port:
        through = postgres.url_at(port)
        async with open_postgres(f"{through}?schema={postgres.new_schema()}&pooler=transaction") as world:
            assert [tuple(row) for row in await world.store.rows(asked)] == [("on",)]


LIMITS = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "transaction_timeout": "5ms",
    "idle_in_transaction_session_timeout": "1ms",
    "default_transaction_isolation": "serializable",
}


@pytest.mark.parametrize("pooled", [False, True])
async def test_what_a_database_says_of_time_and_isolation_does_not_hold_for_our_statements(
    postgres: PostgresServer,
    pooled: bool,  # noqa: FBT001 - by the parameters above
) -> None:
    name = postgres.new_schema()
    await run_sql(postgres.url, f"create database {name}")
    url = postgres.url_at(postgres.port, name)
    for limit, value in LIMITS.items():
        known = await run_sql(postgres.url, "select current_setting($1, true)", limit)
        if known != [(None,)]:  # the last two of them are younger than the oldest server that will do
            await run_sql(postgres.url, f"alter database {name} set {limit} = '{value}'")
    asked = "select pg_sleep(0.05), current_setting('transaction_isolation')"
    with pooler_to(postgres.port, database=name) as port:
        there = f"{postgres.url_at(port, name)}?pooler=transaction" if pooled else url
        async with open_postgres(there) as world:
            assert [row[1] for row in await world.store.rows(asked)] == ["read committed"]
            async with world.store.transaction() as transaction:
                assert [row[1] for row in await transaction.rows(asked)] == ["read committed"]
                await anyio.sleep(0.02)  # no condition: what would end it is a time-out
                await transaction.rows(asked)


async def test_time_is_the_server_s(postgres: PostgresServer) -> None:
    async with open_postgres(postgres.new_url()) as world:
        [[before]] = await run_sql(postgres.url, "select extract(epoch from clock_timestamp())::float8")
        await held(world)
        [[after]] = await run_sql(postgres.url, "select extract(epoch from clock_timestamp())::float8")
        head = await world.get("s")
        assert before < head.created_at_s < head.updated_at_s < after
        [row] = await world.workers()
        assert before + 60 < row.deadline_s < after + 60


async def test_a_name_that_no_index_holds_is_refused_as_such(postgres: PostgresServer) -> None:
    async with open_postgres(postgres.new_url()) as world:
        await opened(world)
        long = random.Random(1).randbytes(6_000).hex()
        with pytest.raises(BadPayload):
            await sent(world, "s", long)
        assert (await world.get("s")).waiting_inputs == 0


async def test_lists_are_right_across_the_eras_of_the_index(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        for number in range(6):
            await opened(world, f"s{number}")
            await run_sql(
                url, f"select setval('{schema_of(url)}.change', nextval('{schema_of(url)}.change') + 3000)"
            )
        names: list[str] = []
        page = await world.list(limit=2)
        while True:
            names += [head.session for head in page.sessions]
            if page.next is None:
                break
            page = await world.list(after=page.next, limit=2)
        assert names == ["s5", "s4", "s3", "s2", "s1", "s0"]


# Its connections


async def test_it_opens_no_more_connections_than_it_may(postgres: PostgresServer) -> None:
    url = f"{postgres.new_url()}&connections=2&application_name=bounded"
    most = 0
    async with open_postgres(url) as world:
        await opened(world)
        async with anyio.create_task_group() as readers:
            for _ in range(40):
                readers.start_soon(world.get, "s")
            [[most]] = await run_sql(
                url,
                "select count(*) from pg_stat_activity where query like $1",
                f"%{schema_of(url)}%session%",
            )
    assert most <= 3  # this one, which asks, among them


async def test_whoever_waits_too_long_for_a_connection_is_told(postgres: PostgresServer) -> None:
    url = f"{postgres.new_url()}&connections=1"
    async with open_postgres(url, pace=Pace(connect_s=0.2)) as world:
        await opened(world)
        async with world.store.transaction():
            with pytest.raises(WorldUnavailable, match="all its connections were busy"):
                await world.get("s")
        assert (await world.get("s")).seq == 1


async def test_a_reader_that_is_cancelled_leaves_the_pool_whole(postgres: PostgresServer) -> None:
    # Without TLS: where its negotiation is cut off, the driver leaves a future behind that nobody asks.
    async with open_postgres(f"{postgres.new_url()}&connections=2&sslmode=disable") as world:
        await opened(world)
        for _ in range(10):
            with anyio.move_on_after(0.01):
                await world.store.rows("select pg_sleep(5)")
        assert (await world.get("s")).seq == 1


async def test_connections_that_the_server_ended_are_replaced(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world, world.subscribe("s"):
        lease = await held(world)
        for seq in range(3, 8):
            await end_all(url)
            with anyio.fail_after(SOON_S):
                # The first may find out by itself: then it is not known whether it landed, and is put again.
                while True:
                    try:
                        assert await put(world, lease, commit(seq, 1)) is None
                        break
                    except WorldUnavailable:
                        continue
        renew(world, "w1")
        assert (await world.get("s")).seq == 7


async def end_all(url: str) -> None:
    await run_sql(
        url,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'outlast' and datname = current_database()",
    )


async def test_a_server_that_does_not_answer_is_given_up(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url, pace=Pace(patience_s=0.5, connect_s=2.0)) as world:
        lease = await held(world)
        locker = await driver.connect(postgres.url)
        await locker.execute(f"begin; select * from {schema_of(url)}.session for update")
        with anyio.fail_after(SOON_S), pytest.raises(WorldUnavailable):
            await put(world, lease, commit(3, 1))
        await locker.execute("rollback")
        await locker.close()
        assert await put(world, lease, commit(3, 1)) is None


async def test_a_renewal_waits_no_longer_than_a_third_of_the_lease(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        renew(world, "w1")
        locker = await driver.connect(postgres.url)
        await locker.execute(f"begin; select * from {schema_of(url)}.worker for update")
        began = time.perf_counter()
        with pytest.raises(WorldUnavailable):
            renew(world, "w1", ttl_s=3.0)
        assert time.perf_counter() - began < 3.0
        await locker.execute("rollback")
        await locker.close()
        renew(world, "w1", ttl_s=3.0)


# Hints


async def untold(url: str, lease: Lease, seq: int) -> None:
    """Land a commit that nobody is told of, as if its process had died before it could."""
    statement = in_schema(schema_of(url))(together.SQL["land_one"])
    new = commit(seq, lease.fence, b"untold")
    bindings = (
        1,
        lease.session,
        seq,
        lease.fence,
        lease.worker,
        1,
        1,
        0,
        new.header.digest,
        "",
        b"untold",
        None,
    )
    assert await run_sql(url, statement, *bindings) == [(1,)]


async def test_a_watcher_waits_for_a_lost_notification_no_longer_than_the_poll(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    waits: list[float] = []
    async with open_postgres(url, pace=QUICK) as world:
        lease = await held(world)
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                for seq in range(3, 8):
                    began = time.perf_counter()
                    await read(world, "s", 1, Cursor(seq - 1, 0))
                    waits.append(time.perf_counter() - began)

            tasks.start_soon(watch)
            for seq in range(3, 8):
                await anyio.wait_all_tasks_blocked()
                await untold(url, lease, seq)
        assert max(waits) < 5.0


def _lose(keys: Iterable[int]) -> None:
    pass


async def test_an_inbox_and_a_worker_wait_for_a_lost_notification_no_longer_than_the_poll(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    async with open_postgres(url, pace=QUICK) as world, open_postgres(url) as other:
        await opened(world, turn_open=False)
        other.store.told = _lose  # its notifications are lost
        async with world.subscribe("s", inbox=True) as inbox, world.subscribe() as work:
            with anyio.fail_after(SOON_S):
                await world.store.poll.listening.wait()
            await sent(other, "s", "in-1")
            with anyio.fail_after(SOON_S):
                while not await world.inputs("s"):
                    await inbox.wait(SOON_S)
                assert await work.wait(SOON_S)
        assert await find_claim(world) is not None


async def test_hints_are_heard_again_after_the_listening_connection_was_lost(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    async with open_postgres(url, pace=NEVER) as world, open_postgres(url) as other:
        lease = await held(world)
        async with world.subscribe("s") as hints:
            for seq in (3, 4):
                with anyio.fail_after(SOON_S):
                    await world.store.poll.listening.wait()
                while await hints.wait(0.1):
                    pass
                await landed(other, lease, seq)
                assert await hints.wait(SOON_S)
                await end_all(url)
                # What was said meanwhile may be lost: whoever waits is told to look.
                assert await hints.wait(SOON_S)
                with anyio.fail_after(SOON_S):
                    while not world.store.poll.listening.is_set():
                        await hints.wait(0.1)


async def test_a_listening_connection_that_falls_silent_holds_nobody_up(postgres: PostgresServer) -> None:
    with relay_to(postgres.port) as relay:
        # The statements go straight to the server; only who listens comes through the relay.
        url = f"{postgres.new_url()}&pooler=transaction&direct=127.0.0.1:{relay.port}"
        async with open_postgres(url, pace=QUICK) as world, open_postgres(url.partition("&")[0]) as other:
            lease = await held(world)
            async with world.subscribe("s"):
                with anyio.fail_after(SOON_S):
                    await world.store.poll.listening.wait()
                relay.stalled = True
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read, world, "s", 1, Cursor(2, 0))
                    await anyio.wait_all_tasks_blocked()
                    await landed(other, lease, 3)
                relay.stalled = False


async def test_many_commits_are_told_in_few_notifications(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    heard: list[str] = []
    async with open_postgres(url) as world:
        listener = await driver.connect(postgres.url)

        def hear(_: object, __: int, ___: str, payload: str) -> None:
            heard.append(payload)

        await listener.add_listener(f"outlast:{schema_of(url)}", hear)
        leases = [await held(world, f"s{number}") for number in range(30)]
        heard.clear()
        for seq in range(3, 13):
            await world.commit_many([(lease, commit(seq, 1)) for lease in leases])
        await world.store.close()
        await listener.fetch("select 1")
        await listener.close()
    assert 1 <= len(heard) <= 11
    assert all(len(payload) < 8000 for payload in heard)


async def test_a_worker_that_retires_wakes_those_who_wait_for_work(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with open_postgres(url, pace=NEVER) as world:
        await held(world)
        async with world.subscribe() as hints:
            with anyio.fail_after(SOON_S):
                await world.store.poll.listening.wait()
            while await hints.wait(0.1):
                pass
            retire(world, "w1")
            assert await hints.wait(SOON_S)
        assert (await claimed(world, "w2")).proof == "expired"


# Races


WRITER = """
import json, random, sys, anyio
from outlast.testing.world_contract.blocks import commit, sent
from outlast.errors import CommitConflict, InputTaken
from outlast.world import Input, Lease
from outlast.worlds.postgres import open_postgres

async def main(url, name, seed, rounds):
    draw, won = random.Random(seed), {}
    async with open_postgres(url) as world:
        heads = {f"s{number}": 2 for number in range(12)}
        for turn in range(rounds):
            sessions = draw.sample(sorted(heads), 8)
            batch = []
            for session in sessions:
                names = draw.sample([f"h{number}" for number in range(6)], 3)
                blobs = {blob: blob.encode() for blob in names} if draw.random() < 0.5 else {}
                body = f"{name} {turn}".encode()
                new = commit(heads[session] + 1, 1, body, blobs, refs=tuple(blobs))
                batch.append((Lease(session, 1, "w1"), new))
            if draw.random() < 0.3:
                await world.put_input(draw.choice(sessions), Input(f"{name}-{turn}", "d", b"", ("h1",), {"h1": b"h1"}))
            for (lease, new), refused in zip(batch, await world.commit_many(batch)):
                if refused is None:
                    won[f"{lease.session} {new.header.seq}"] = new.body.decode()
                elif not isinstance(refused, CommitConflict):
                    raise refused
            for head in (await world.list()).sessions:
                heads[head.session] = head.seq
    print(json.dumps(won))

anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""


async def test_overlapping_batches_of_several_processes_never_deadlock(
    postgres: PostgresServer, seed: int
) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        for number in range(12):
            await held(world, f"s{number}")
        deadlocks = "select deadlocks from pg_stat_database where datname = 'postgres'"
        before = await run_sql(url, deadlocks)
        outputs: list[bytes] = []

        async def write(name: int) -> None:
            words = [url, f"p{name}", str(seed + name), "60"]
            done = await anyio.run_process([sys.executable, "-c", WRITER, *words], stderr=None)
            outputs.append(done.stdout)

        async with anyio.create_task_group() as writers:
            for name in range(3):
                writers.start_soon(write, name)
        assert await run_sql(url, deadlocks) == before
        won: dict[str, str] = {}
        for output in outputs:
            theirs: dict[str, str] = msgspec.json.decode(output)
            assert not won.keys() & theirs.keys()
            won |= theirs
        for number in range(12):
            commits = (await whole(world, f"s{number}"))[2:]
            assert [there.header.seq for there in commits] == list(range(3, len(commits) + 3))
            for there in commits:
                assert won.pop(f"s{number} {there.header.seq}") == there.body.decode()
        assert not won


async def test_bytes_that_a_session_names_outlive_the_erasing_of_another_that_named_them(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world, open_postgres(url) as other:
        lease = await held(world, "keeper")
        for turn in range(40):
            name = f"h{turn}"
            await world.create(f"s{turn}", commit(1, 0, blobs={name: b"x"}, refs=(name,)), agent="coder")
            results: list[Exception | None] = []

            async def name_it(
                turn: int = turn, name: str = name, results: list[Exception | None] = results
            ) -> None:
                given = {name: b"x"} if turn % 2 else {}
                seq = (await world.get("keeper")).seq + 1
                results.append(await put(world, lease, commit(seq, 1, b"", given, refs=(name,))))

            async with anyio.create_task_group() as racers:
                racers.start_soon(name_it)
                racers.start_soon(other.erase, f"s{turn}")
            [result] = results
            if result is None:
                assert await world.get_many("keeper", [name]) == {name: b"x"}
            else:
                assert isinstance(result, BlobUnknown)
                assert not turn % 2


async def test_an_erasing_that_was_cut_short_is_taken_up_at_the_next_opening(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    async with open_postgres(url) as world:
        await world.create("s", commit(1, 0, blobs={"h": b"x"}, refs=("h",)), agent="coder")
        await world.store.rows(erase.SQL["entomb"], 1, "s")
        with pytest.raises(SessionErased):
            await world.get("s")
    async with open_postgres(url) as world:
        with pytest.raises(SessionErased):
            await world.get("s")
    schema = schema_of(url)
    assert await run_sql(url, f"select count(*) from {schema}.log") == [(0,)]
    assert await run_sql(url, f"select count(*) from {schema}.blob") == [(0,)]
    assert await run_sql(url, f"select state from {schema}.session") == [(2,)]


# A connection that is cut


async def again(write: Callable[[], Awaitable[T]]) -> T:
    """What comes of a write that is put again for as long as it is not known whether it landed."""
    with anyio.fail_after(SOON_S):
        while True:
            try:
                return await write()
            except WorldUnavailable:
                continue


async def test_a_connection_that_is_cut_around_a_commit_loses_nothing_and_repeats_nothing(
    postgres: PostgresServer, seed: int
) -> None:
    draw = random.Random(seed)
    with relay_to(postgres.port) as relay:
        url = f"{postgres.url_at(relay.port)}?schema={postgres.new_schema()}"
        async with open_postgres(url) as world:
            leases = [await held(world, f"s{number}") for number in range(3)]
            for seq in range(3, 43):
                new = Input(f"in-{seq}", "d", b"x")
                await again(partial(world.put_input, "s1", new))
                consumes = {"s1": (new.id,)}
                batch = [
                    (lease, commit(seq, 1, b"%d" % seq, sealed=1, consumes=consumes.get(lease.session, ())))
                    for lease in leases
                ]
                relay.cut(draw.choice(MOMENTS))
                for lease in leases:
                    await again(partial(published, world, lease, seq - 1, b"delta"))
                relay.cut(draw.choice(MOMENTS))
                for size in (1, 3):
                    assert await again(partial(world.commit_many, batch[:size])) == [None] * size
            for lease in leases:
                bodies = [body for _, body in pieces(await read(world, lease.session, 82))]
                wanted = [piece for seq in range(3, 43) for piece in (b"delta", b"%d" % seq)]
                assert bodies == [b"first", b"takeover", *wanted]
            assert await world.inputs("s1") == []
        assert relay.cuts >= 40


async def test_a_claim_whose_answer_is_lost_is_given_back(postgres: PostgresServer) -> None:
    with relay_to(postgres.port) as relay:
        through = f"{postgres.url_at(relay.port)}?schema={postgres.new_schema()}&connections=1"
        async with open_postgres(through) as world:
            # What is said next on the connection is the claim itself, no longer how it is to be prepared.
            await held(world, "before")
            await opened(world)
            statement = in_schema(world.store.address.schema)(claims.SQL["choose"])
            real = world.store.pool.rows

            async def rows(asked: str, *bindings: object) -> object:
                found = await real(asked, *bindings)  # pyright: ignore[reportArgumentType] passed on
                if asked == statement:
                    relay.cut("answered")
                return found

            world.store.pool.rows = rows  # pyright: ignore[reportAttributeAccessIssue] to cut between two statements
            with pytest.raises(WorldUnavailable):
                await world.claim(offer("w1"), TAKEOVER)
            world.store.pool.rows = real
            head = await world.get("s")
            assert (head.seq, head.fence, head.worker) == (2, 1, "w1")
            claim = await world.claim(offer("w1"), TAKEOVER)
            assert claim is not None
            assert (claim.lease.fence, claim.seq, claim.proof) == (2, 3, "free")
            await landed(world, claim.lease, 4)
            assert await world.claim(offer("w1"), TAKEOVER) is None
