"""Which thread writes to the SQLite World, and that the event loop's own never waits for anybody."""

import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.lowlevel
import apsw
import pytest

from outlast.errors import BadInput, WorldFull, WorldUnavailable
from outlast.testing.world_contract.blocks import commit, held, landed, put
from outlast.worlds.sqlite import Pace, SqliteWorld, open_sqlite
from outlast.worlds.sqlite.database import connect
from outlast.worlds.sqlite.mutex import Mutex
from outlast.worlds.sqlite.pen import TRIM_PAGES
from outlast.worlds.sqlite.transaction import Transaction
from outlast.worlds.sqlite.writer import REST_LEAST, REST_MOST, Haste, Writer

LOOP = threading.main_thread()
SLOW = Pace(quick_s=0.0)
FAST = Pace(patience_s=10.0, quick_s=60.0)


@pytest.fixture
def path() -> Generator[Path]:
    with TemporaryDirectory() as directory:
        yield Path(directory) / "world.db"


@pytest.fixture
async def world(path: Path) -> AsyncGenerator[SqliteWorld]:
    """One whose disk has shown that it is fast."""
    async with open_sqlite(path, pace=FAST) as fresh:
        await rest(fresh)
        yield fresh


def writer_of(world: SqliteWorld) -> Writer:
    assert world.store.writer is not None
    return world.store.writer


def thread_of(_: Transaction) -> threading.Thread:
    return threading.current_thread()


async def rest(world: SqliteWorld) -> None:
    """Write as often as it takes until the loop's thread may try how fast the disk is."""
    for _ in range(REST_LEAST):
        await writer_of(world).write(thread_of)


async def by_the_loop(world: SqliteWorld) -> bool:
    """Whether a lone job is written by the loop's thread."""
    await anyio.lowlevel.checkpoint()
    return await writer_of(world).write(thread_of) is LOOP


async def test_the_loops_thread_writes_where_the_disk_is_fast(world: SqliteWorld) -> None:
    assert await by_the_loop(world)
    assert await by_the_loop(world)


async def test_the_loops_thread_does_not_write_where_the_disk_is_slow(path: Path) -> None:
    async with open_sqlite(path, pace=SLOW) as world:
        await rest(world)
        assert await by_the_loop(world)  # it cannot be known without a try
        for _ in range(REST_LEAST):
            assert not await by_the_loop(world)


async def test_what_takes_long_or_is_large_is_left_to_the_other_thread(world: SqliteWorld) -> None:
    writer = writer_of(world)
    assert await writer.write(thread_of, brief=False) is not LOOP
    assert await writer.write(thread_of, size=10_000_000) is not LOOP


async def test_a_round_of_the_loop_writes_once_and_what_else_comes_shares_a_transaction(
    world: SqliteWorld,
) -> None:
    writer, seen = writer_of(world), list[Transaction]()
    await anyio.lowlevel.checkpoint()
    jobs = [writer.write(seen.append) for _ in range(3)]
    assert [job.done() for job in jobs] == [True, False, False]
    for job in jobs:
        await job
    assert seen[0] is not seen[1]
    assert len(seen) == 3


async def test_nothing_overtakes_what_was_given_to_the_other_thread(world: SqliteWorld) -> None:
    writer, order = writer_of(world), list[int]()
    with Mutex(world.store.files.lock):
        first = writer.write(lambda _: order.append(1))
        await anyio.lowlevel.checkpoint()
        second = writer.write(lambda _: order.append(2))
        assert not first.done()
    await first
    await second
    assert order == [1, 2]
    assert await by_the_loop(world)


async def test_the_loop_goes_round_while_another_process_holds_the_write_lock(world: SqliteWorld) -> None:
    lease = await held(world)
    await anyio.lowlevel.checkpoint()
    async with anyio.create_task_group() as writers:
        with Mutex(world.store.files.lock):
            writers.start_soon(landed, world, lease, 3)
            assert (await world.get("s")).seq == 2
    assert (await world.get("s")).seq == 3
    assert await by_the_loop(world)


async def test_the_loop_goes_round_while_another_program_holds_the_databases_lock(
    path: Path, world: SqliteWorld
) -> None:
    lease = await held(world)
    other = connect(str(path))
    other.execute("begin immediate")
    await anyio.lowlevel.checkpoint()
    async with anyio.create_task_group() as writers:
        writers.start_soon(landed, world, lease, 3)
        assert (await world.get("s")).seq == 2
        other.execute("commit")
    other.close()
    assert await by_the_loop(world)


async def test_a_refusal_in_the_loops_thread_is_the_callers_and_leaves_nothing(world: SqliteWorld) -> None:
    def refuse(_: Transaction) -> None:
        raise BadInput(detail="no")

    await anyio.lowlevel.checkpoint()
    with pytest.raises(BadInput):
        await writer_of(world).write(refuse)
    assert await by_the_loop(world)


async def test_an_interrupt_in_the_loops_thread_lets_go_of_the_databases_lock(
    path: Path, world: SqliteWorld
) -> None:
    def interrupt(_: Transaction) -> None:
        raise KeyboardInterrupt

    await anyio.lowlevel.checkpoint()
    with pytest.raises(KeyboardInterrupt):
        await writer_of(world).write(interrupt)
    other = connect(str(path))
    other.execute("begin immediate")
    other.execute("commit")
    other.close()
    assert await by_the_loop(world)


async def test_a_full_disk_refuses_in_the_loops_thread_and_leaves_nothing(world: SqliteWorld) -> None:
    lease = await held(world)
    new = commit(3, 1, b"x" * 200_000)
    await writer_of(world).write(lambda transaction: transaction.rows("pragma max_page_count = 40"))
    assert await by_the_loop(world)
    await anyio.lowlevel.checkpoint()
    with pytest.raises(WorldFull):
        await put(world, lease, new)
    assert (await world.get("s")).seq == 2
    await writer_of(world).write(lambda transaction: transaction.rows("pragma max_page_count = 10000"))
    assert await put(world, lease, new) is None


async def test_after_a_failed_fsync_the_loops_thread_leaves_the_carrying_over_to_the_other(
    world: SqliteWorld,
) -> None:
    def fail(_: Transaction) -> None:
        raise apsw.IOError

    await anyio.lowlevel.checkpoint()
    with pytest.raises(WorldUnavailable):
        await writer_of(world).write(fail)
    assert not await by_the_loop(world)
    assert await by_the_loop(world)


async def test_the_wal_stays_small_under_lone_commits(path: Path, world: SqliteWorld) -> None:
    lease = await held(world)
    for seq in range(3, 60):
        await anyio.lowlevel.checkpoint()
        await landed(world, lease, seq, b"x" * 200_000)
    assert path.with_name("world.db-wal").stat().st_size < 2 * TRIM_PAGES * 4096


def test_a_disk_that_stays_slow_is_tried_ever_more_rarely() -> None:
    haste, rests = Haste(0.001), list[int]()
    for _ in range(8):
        rests.append(0)
        while not haste.may:
            haste.left_out()
            rests[-1] += 1
        while haste.may:
            haste.took(0.01)
    assert rests == [min(REST_MOST, REST_LEAST << max(0, tried - 1)) for tried in range(8)]


def test_one_slow_answer_of_a_fast_disk_changes_nothing() -> None:
    haste = Haste(0.001)
    for _ in range(REST_LEAST):
        haste.left_out()
    for seconds in (0.0001, 0.004, 0.0001):
        haste.took(seconds)
    assert haste.may
