"""The SQLite World where it is more than the contract: its files, its limits, its locks, its hints."""

import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import anyio
import anyio.to_thread
import apsw
import pytest

from outlast.clock import ManualClock
from outlast.errors import (
    WorldForeign,
    WorldFull,
    WorldReadOnly,
    WorldTooNew,
    WorldTooOld,
    WorldUnavailable,
)
from outlast.testing.world_contract.blocks import (
    commit,
    find_claim,
    held,
    landed,
    opened,
    pieces,
    published,
    put,
    read,
    renew,
)
from outlast.world import Cursor, Gap, Input, Lease, WorkerRow
from outlast.worlds.sqlite import Pace, SqliteWorld, forks, layout, open_sqlite, writes
from outlast.worlds.sqlite.database import connect
from outlast.worlds.sqlite.follow import behind
from outlast.worlds.sqlite.layout import Files
from outlast.worlds.sqlite.mutex import Mutex
from outlast.worlds.sqlite.transaction import Query, Transaction

SOON_S = 10.0


@pytest.fixture
def path() -> Generator[Path]:
    with TemporaryDirectory() as directory:
        yield Path(directory) / "data" / "world.db"


@pytest.fixture
async def world(path: Path) -> AsyncGenerator[SqliteWorld]:
    async with open_sqlite(path) as opened_world:
        yield opened_world


async def make(path: Path) -> None:
    async with open_sqlite(path) as fresh:
        await opened(fresh)


def everything(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file()}


async def refusal(path: Path, kind: type[WorldUnavailable]) -> WorldUnavailable:
    """How it is refused to open the file; nothing is changed by it."""
    before = everything(path.parent)
    with pytest.raises(kind) as refused:
        async with open_sqlite(path):
            pass
    assert everything(path.parent) == before
    return refused.value


# What is found at the path


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"my thesis\n" * 100, "no SQLite database"), (b"x", "no SQLite database")],
)
async def test_a_file_of_something_else_is_refused_and_left_alone(
    path: Path, content: bytes, reason: str
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert reason in str(await refusal(path, WorldForeign))


async def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    other = connect(str(path))
    other.execute("pragma journal_mode = wal; create table mine (x); insert into mine values (1)")
    other.close()
    assert "another program" in str(await refusal(path, WorldForeign))


async def test_a_torn_file_is_refused_and_left_alone(path: Path) -> None:
    await make(path)
    path.write_bytes(path.read_bytes()[: 4096 * 5 + 100])
    assert "torn: 5 of" in str(await refusal(path, WorldForeign))


async def test_a_newer_layout_is_refused_and_left_alone(path: Path) -> None:
    await make(path)
    database = connect(str(path))
    database.execute(f"pragma user_version = {layout.LAYOUT + 1}")
    database.close()
    refused = await refusal(path, WorldTooNew)
    assert (refused.found, refused.known) == (layout.LAYOUT + 1, layout.LAYOUT)


async def test_a_layout_from_before_the_first_release_is_refused_with_what_to_do(path: Path) -> None:
    await make(path)
    database = connect(str(path))
    database.execute("drop table spent; pragma user_version = 1")
    database.close()
    refused = await refusal(path, WorldTooOld)
    assert (refused.found, refused.needed) == (1, layout.LAYOUT)
    assert "move the file away" in str(refused)


async def test_damage_inside_the_file_is_named_and_does_not_hang(path: Path) -> None:
    async with open_sqlite(path) as world:
        lease = await held(world)
        for seq in range(3, 60):
            await landed(world, lease, seq, b"x" * 3000)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(WorldUnavailable, match="damaged"):
        async with open_sqlite(path) as world:
            await world.commits("s")


async def test_an_empty_file_becomes_a_world(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    await make(path)
    async with open_sqlite(path) as world:
        assert (await world.get("s")).seq == 1


async def test_many_who_open_a_new_path_at_once_share_one_world(path: Path) -> None:
    async def visit(number: int) -> None:
        async with open_sqlite(path) as world:
            await opened(world, f"s{number}")

    async with anyio.create_task_group() as visitors:
        for number in range(6):
            visitors.start_soon(visit, number)
    async with open_sqlite(path) as world:
        assert len((await world.list()).sessions) == 6


async def test_two_names_of_one_file_are_one_world(path: Path) -> None:
    path.parent.mkdir()
    link = path.with_name("link.db")
    link.symlink_to(path)
    async with open_sqlite(path) as world, open_sqlite(link) as other:
        await held(world)
        assert await find_claim(other, "w2") is None
    assert not list(path.parent.glob("link.db-*"))


async def test_nobody_else_may_read_the_files(path: Path) -> None:
    async with open_sqlite(path) as world:
        await held(world)
        async with world.subscribe():
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert set(modes) == {
        "world.db", "world.db-wal", "world.db-shm", "world.db-lock", "world.db-workers", "world.db-hints",
    }  # fmt: skip
    assert {mode & 0o077 for mode in modes.values()} == {0}


READ_ONLY = """
import os, sys, anyio
from outlast.errors import WorldReadOnly
from outlast.testing.world_contract.blocks import commit, read
from outlast.worlds.sqlite import open_sqlite
async def look():
    async with open_sqlite(sys.argv[1]) as world:
        head = await world.get("s")
        [item] = await read(world, "s", 1)
        try:
            await world.create("s2", commit(1, 0), agent="coder")
        except WorldReadOnly as error:
            print(head.seq, item.cursor, error)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
anyio.run(look)
"""


@pytest.mark.crash
@pytest.mark.parametrize("open_elsewhere", [False, True])
@pytest.mark.parametrize("file_mode", [0o444, 0o666])
async def test_a_world_that_cannot_be_written_can_be_read(
    path: Path, file_mode: int, *, open_elsewhere: bool
) -> None:
    await make(path)
    path.parent.parent.chmod(0o755)
    path.chmod(file_mode)
    path.parent.chmod(0o555)
    try:
        if open_elsewhere and os.geteuid() == 0:
            async with open_sqlite(path):
                seen = await anyio.to_thread.run_sync(_look, path)
        else:
            seen = _look(path)
    finally:
        path.parent.chmod(0o755)
    assert seen.startswith("1 1.0 ")
    assert "cannot be written" in seen


def _look(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_where_nothing_can_be_made_it_says_so() -> None:
    with pytest.raises((WorldReadOnly, WorldUnavailable)):
        async with open_sqlite("/proc/outlast/world.db"):
            pass


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    mounts = [
        "22 1 254:0 / / rw - ext4 /dev/vda rw",
        "30 22 0:40 / /home rw shared:1 - nfs4 server:/home rw",
        "31 30 0:41 / /home/my\\040files rw - tmpfs none rw",
    ]
    assert layout.file_system(mounts, Path("/var/world.db")) == "ext4"
    assert layout.file_system(mounts, Path("/home/me/world.db")) == "nfs4"
    assert layout.file_system(mounts, Path("/home/my files/world.db")) == "tmpfs"


# Writing


async def test_a_full_disk_refuses_the_commit_and_goes_on_when_there_is_room(world: SqliteWorld) -> None:
    lease = await held(world)
    await _limit(world, 60)
    large = commit(3, 1, b"x" * 1_000_000)
    with pytest.raises(WorldFull, match="did not land"):
        await put(world, lease, large)
    assert (await world.get("s")).seq == 2
    await _limit(world, 1_000_000)
    assert await put(world, lease, large) is None


async def test_a_commit_that_finds_no_room_hinders_no_other(world: SqliteWorld) -> None:
    lease, other = await held(world), await held(world, "other")
    await _limit(world, 100)
    refused: list[Exception] = []

    async def write_large() -> None:
        try:
            await put(world, lease, commit(3, 1, b"x" * 1_000_000))
        except WorldFull as error:
            refused.append(error)

    async with anyio.create_task_group() as writers:
        writers.start_soon(write_large)
        writers.start_soon(landed, world, other, 3)
    assert len(refused) == 1
    assert (await world.get("other")).seq == 3


async def _limit(world: SqliteWorld, pages: int) -> None:
    assert world.store.writer is not None
    await world.store.writer.write(lambda transaction: transaction.rows(f"pragma max_page_count = {pages}"))


async def test_a_job_that_goes_wrong_hinders_no_other(world: SqliteWorld) -> None:
    lease = await held(world)
    writer = world.store.writer
    assert writer is not None

    def half(transaction: Transaction) -> None:
        transaction.run("update session set status = 'half'")
        raise ZeroDivisionError

    with Mutex(world.store.files.lock):  # the first batch waits here, the rest makes a second one
        first = writer.write(lambda transaction: transaction.now_s)
        bad, good = writer.write(half), writer.write(lambda transaction: transaction.next_change("default"))
    await first
    with pytest.raises(WorldUnavailable, match="ZeroDivisionError"):
        await bad
    assert await good > 0
    assert (await world.get("s")).status == ""
    await landed(world, lease, 3)


async def test_only_deltas_go_without_an_fsync(world: SqliteWorld) -> None:
    writer = world.store.writer
    assert writer is not None

    def synchronous(transaction: Transaction) -> object:
        return transaction.rows("pragma synchronous")[0][0]

    full, normal = 2, 1
    levels = [await writer.write(synchronous, durable=durable) for durable in (True, False, True, False)]
    assert levels == [full, normal, full, normal]


async def test_after_an_io_error_nothing_is_acknowledged_before_everything_is_in_the_database(
    path: Path,
) -> None:
    disk = FailingDisk()
    try:
        async with open_sqlite(path) as world:
            lease = await held(world)
            await published(world, lease, 2, b"delta")
            disk.fails = True
            new = commit(3, 1, sealed=1)
            with pytest.raises(WorldUnavailable):
                await put(world, lease, new)
            with pytest.raises(WorldUnavailable):
                await put(world, lease, new)
            disk.fails = False
            disk.synced.clear()
            assert await put(world, lease, new) is None
            # The database itself was fsynced, and only then the WAL with the commit.
            assert disk.synced[-1].endswith("-wal")
            assert str(path) in disk.synced[:-1]
            assert [body for _, body in pieces(await read(world, "s", 4))][2:] == [b"delta", b"body"]
    finally:
        disk.unregister()


class FailingDisk(apsw.VFS):
    """The system's own files, whose fsync fails on demand."""

    def __init__(self) -> None:
        self.fails = False
        self.synced: list[str] = []
        self.base = apsw.vfs_names()[0]
        super().__init__("failing", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 the API's name
        return FailingFile(self, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__(disk.base, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802 the API's name
        if self._disk.fails:
            raise apsw.IOError
        self._disk.synced.append(self._name)
        super().xSync(flags)


# Locks and limits of time


async def test_a_held_write_lock_is_waited_for_in_bounds_and_its_holder_named(path: Path) -> None:
    async with open_sqlite(path, pace=Pace(patience_s=0.3)) as world:
        lease = await held(world)
        liveness = world.open_liveness()
        new = commit(3, 1)
        with Mutex(world.store.files.lock):
            with pytest.raises(WorldUnavailable, match=f"process {os.getpid()} .* has held its write lock"):
                await put(world, lease, new)
            # Neither readers nor a worker's liveness stand in that line.
            assert (await world.get("s")).seq == 2
            assert liveness.renew(WorkerRow("w1", "holder of w1", 0.0), 9.0) > 8.9
        assert await put(world, lease, new) is None


async def test_what_was_given_up_is_not_written_later(path: Path) -> None:
    async with open_sqlite(path, pace=Pace(patience_s=0.2)) as world:
        lease = await held(world)
        with Mutex(world.store.files.lock), pytest.raises(WorldUnavailable):
            await put(world, lease, commit(3, 1, b"given up"))
        await landed(world, lease, 3, b"another")
        assert (await world.commits("s", after=2))[0].body == b"another"


async def test_another_programs_lock_is_waited_for(path: Path) -> None:
    async with open_sqlite(path) as world:
        lease = await held(world)
        other = connect(str(path))
        other.execute("begin immediate")
        async with anyio.create_task_group() as writers:
            writers.start_soon(landed, world, lease, 3)
            assert (await world.get("s")).seq == 2
            other.execute("commit")
        other.close()


async def test_a_closed_world_says_so(path: Path) -> None:
    async with open_sqlite(path) as world:
        await opened(world)
    with pytest.raises(WorldUnavailable, match="closed"):
        await world.get("s")
    with pytest.raises(WorldUnavailable, match="closed"):
        await opened(world, "s2")


async def test_closing_writes_what_is_queued(path: Path) -> None:
    async with open_sqlite(path) as world:
        writer = world.store.writer
        assert writer is not None
        lease = await held(world)
        for seq in range(3, 200):
            batch = [(lease, commit(seq, 1))]
            _ = writer.write(partial(writes.commit_many, tenant="default", commits=batch))
    async with open_sqlite(path) as world:
        assert (await world.get("s")).seq == 199


# Hints


async def test_a_path_too_long_for_a_socket_still_hints() -> None:
    never = Pace(poll_s=3600)
    with TemporaryDirectory() as directory:
        path = Path(directory) / ("d" * 120) / ("e" * 120) / "world.db"
        async with (
            open_sqlite(path) as world,
            open_sqlite(path, pace=never) as other,
            other.subscribe("s") as hints,
        ):
            await opened(world)
            assert await hints.wait(SOON_S)


async def test_sockets_of_the_dead_are_removed(world: SqliteWorld) -> None:
    directory = world.store.files.hints
    directory.mkdir()
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(directory / "dead"))
    dead.close()
    await opened(world)
    with anyio.fail_after(SOON_S):
        while (directory / "dead").exists():
            await world.list()


async def test_a_lost_hint_is_noticed_by_the_poll(path: Path) -> None:
    often = Pace(poll_s=0.05)
    async with (
        open_sqlite(path) as world,
        open_sqlite(path, pace=often) as deaf,
        deaf.subscribe("s") as hints,
    ):
        for name in path.with_name("world.db-hints").iterdir():
            name.unlink()
        while await hints.wait(0.3):
            pass
        lease = await held(world)
        assert await hints.wait(SOON_S)
        while await hints.wait(0.3):
            pass
        await published(world, lease, 2, b"delta")
        assert await hints.wait(SOON_S)


async def test_sockets_go_when_the_world_is_closed(path: Path) -> None:
    async with open_sqlite(path) as world, world.subscribe():
        assert len(list(path.with_name("world.db-hints").iterdir())) == 1
    assert list(path.with_name("world.db-hints").iterdir()) == []


# Erasing, dropped deltas, workers long gone


async def test_erased_bytes_are_in_no_file(path: Path) -> None:
    secrets = [b"secret-%d-" % number * 50 for number in range(4)]
    async with open_sqlite(path) as world:
        lease = await held(world)
        await world.put_input("s", Input("in-1", "d", secrets[0], refs=("h1",), blobs={"h1": secrets[1]}))
        for seq in range(3, 500):
            await landed(world, lease, seq, secrets[2])
        await published(world, lease, 499, secrets[3])
        await world.erase("s")
    for content in everything(path.parent).values():
        assert not any(secret[:10] in content for secret in secrets)


async def test_an_erasing_that_was_cut_short_is_ended_by_the_next_opening(path: Path) -> None:
    async with open_sqlite(path) as world:
        await opened(world)
        assert world.store.writer is not None
        await world.store.writer.write(lambda transaction: transaction.rows("update session set state = 1"))
    async with open_sqlite(path) as world:
        assert await _count(world, "log") == 0


async def _count(world: SqliteWorld, table: str) -> int:
    return await world.store.reader.read(lambda query: query.rows(f"select count(*) from {table}")[0][0])


async def test_deltas_whose_bytes_were_dropped_come_as_a_gap(world: SqliteWorld) -> None:
    lease = await held(world)
    for index in range(4):
        await published(world, lease, 2, b"d%d" % index, first=index)
    await landed(world, lease, 3, sealed=4)
    assert world.store.writer is not None
    await world.store.writer.write(
        lambda transaction: transaction.rows("delete from delta where first in (1, 2)")
    )
    whole = pieces(await read(world, "s", 6))
    assert [body for _, body in whole] == [b"first", b"takeover", b"d0", b"gap", b"gap", b"d3", b"body"]
    for position, (cursor, _) in enumerate(whole[:-1]):
        count = 2 if cursor < Cursor(2, 3) else 1
        rest = await read(world, "s", max(1, len(whole) - position - count), cursor)
        assert pieces(rest) == whole[position + 1 :][: len(pieces(rest))]
    [gap] = await read(world, "s", 1, Cursor(2, 2))
    assert (gap.what, gap.first) == (Gap(1), 2)


async def _turns(world: SqliteWorld, lease: Lease, seqs: range) -> None:
    """Turns of one commit each, whose deltas are dropped once the next is over."""
    for seq in seqs:
        for index in range(30):
            await published(world, lease, seq - 1, b"unsettled-%d-" % seq * 200, first=index)
        await landed(world, lease, seq, sealed=30)
        await world.drop_deltas(lease, seq - 1)


@pytest.mark.crash
async def test_a_file_grows_no_more_by_deltas_that_are_dropped(path: Path) -> None:
    async with open_sqlite(path) as world:
        lease = await held(world)
        await _turns(world, lease, range(3, 23))
        early = await _pages(world)
        await _turns(world, lease, range(23, 123))
        assert await _pages(world) - early <= 20
        assert await _count(world, "delta") == 30


async def _pages(world: SqliteWorld) -> int:
    return await world.store.reader.read(lambda query: query.rows("pragma page_count")[0][0])


async def test_dropped_bytes_are_in_no_file_once_the_world_is_closed(path: Path) -> None:
    async with open_sqlite(path) as world:
        lease = await held(world)
        await _turns(world, lease, range(3, 5))
        await landed(world, lease, 5)
        await world.drop_deltas(lease, 5)
    for content in everything(path.parent).values():
        assert b"unsettled-" not in content


async def test_more_deltas_are_dropped_than_one_transaction_frees(world: SqliteWorld) -> None:
    lease = await held(world)
    count = writes.PIECE * 2 + 1
    async with anyio.create_task_group() as showing:
        for index in range(count):
            showing.start_soon(partial(published, world, lease, 2, b"d", first=index))
    await landed(world, lease, 3, sealed=count)
    await world.drop_deltas(lease, 3)
    assert await _count(world, "delta") == 0
    [gap] = await read(world, "s", 1, Cursor(2, 0))
    assert (gap.what, gap.cursor) == (Gap(count), Cursor(2, count))


async def test_workers_that_ended_long_ago_are_forgotten_unless_a_session_names_them(path: Path) -> None:
    clock = ManualClock()
    async with open_sqlite(path, clock=clock) as world:
        await held(world, worker="named")
        renew(world, "unnamed")
        renew(world, "recent", 100_000.0)
    clock.turn(2 * 24 * 3600)
    async with open_sqlite(path, clock=clock) as world:
        assert {row.worker for row in await world.workers()} == {"named", "recent"}


# Cost


def test_every_statement_finds_its_rows_by_an_index(path: Path) -> None:
    layout.prepare(Files.beside(path))
    database = connect(str(path))
    # Lists that come with the statement, and indexes that hold nothing but what is looked for.
    allowed = (
        "json_each",
        "SCAN tenant",
        "SCAN (subquery",
        "wanted",
        "owner",
        "CONSTANT",
        "INDEX session_dying",
        "INDEX session_held",
    )
    scans: list[str] = []
    for file in sorted(Path(layout.__file__).parent.glob("*.sql")):
        for name, text in re.findall(r"-- name: (\w+)\n(.*?)(?=\n--|\Z)", file.read_text(), re.DOTALL):
            for *_, line in database.execute(f"explain query plan {text}", [None] * _parameters(text)):
                if line.startswith("SCAN") and not any(word in line for word in allowed):
                    scans.append(f"{file.stem}.{name}: {line}")
    database.close()
    assert scans == []


def _parameters(statement: str) -> int:
    numbered = [int(number) for number in re.findall(r"\?(\d)", statement)]
    return max(numbered, default=statement.count("?"))


async def test_a_watcher_pays_for_the_tail_only(world: SqliteWorld) -> None:
    lease = await held(world)
    for seq in range(3, 200):
        await landed(world, lease, seq)
    for index in range(300):
        await published(world, lease, 199, b"d%d" % index, first=index)
    early = await world.store.reader.read(lambda query: _instructions(query, Cursor(100, 0)))
    late = await world.store.reader.read(lambda query: _instructions(query, Cursor(199, 299)))
    assert late < 300 < early


def _instructions(query: Query, after: Cursor) -> int:
    """How many instructions SQLite carries out to read what follows."""
    database = cast("apsw.Connection", query.run.__self__)
    done = 0

    def count() -> bool:
        nonlocal done
        done += 1
        return False

    database.set_progress_handler(count, 1)
    try:
        items, _ = behind(query, "default", "s", after)
        assert items
    finally:
        database.set_progress_handler(None)
    return done


async def test_an_idle_claim_takes_no_write_lock(path: Path) -> None:
    async with open_sqlite(path, pace=Pace(patience_s=0.2)) as world:
        await held(world)
        with Mutex(world.store.files.lock):
            assert await find_claim(world, "w2") is None


def test_a_fork_looks_each_blob_up_by_its_hash(path: Path) -> None:
    layout.prepare(Files.beside(path))
    database = connect(str(path))
    plan = [
        line for *_, line in database.execute(f"explain query plan {forks.SQL['copy_names']}", [None] * 4)
    ]
    database.close()
    assert any("tenant=? AND hash=?" in line for line in plan), plan
