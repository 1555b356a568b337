import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import pytest

from outlast.clock import SystemClock, boottime
from outlast.engine.deadlines import SUPERVISION_VARIABLES, Supervision, claim_supervision, write_deadline
from outlast.engine.keeper import Keeper
from outlast.errors import WorldUnavailable

LIMIT_S = 10.0
LONG_S = 3600.0
"""A lease that outlasts any delay of a loaded machine."""
DOWN = WorldUnavailable(world="the test", reason="it is down")


@dataclass
class Row:
    """A liveness row that can refuse, fail and hang."""

    ttl_s: float
    granted_s: float | None = None
    began_s: list[float] = field(default_factory=list[float])
    failure: Exception | None = None
    hang: threading.Event | None = None
    lost: list[str] = field(default_factory=list[str])

    def renew(self) -> float:
        self.began_s.append(boottime())
        if self.hang is not None:
            self.hang.wait(LIMIT_S)
        if self.failure is not None:
            raise self.failure
        return self.granted_s or self.ttl_s

    def keeper(self, deadline_fd: int | None = None) -> Keeper:
        return Keeper(
            self.renew,
            ttl_s=self.ttl_s,
            on_lost=self.lost.append,
            clock=SystemClock(),
            deadline_fd=deadline_fd,
        )


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    yield reader, writer
    for fd in (reader, writer):
        with suppress(OSError):
            os.close(fd)


def next_deadline_s(reader: int) -> float:
    assert select.select([reader], [], [], LIMIT_S)[0], "no deadline came"
    return int(os.read(reader, 20)) / 1e9


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - the keeper's thread sets no event
            await anyio.sleep(0.002)


async def test_the_body_runs_under_a_lease(pipe: tuple[int, int]) -> None:
    row = Row(ttl_s=30)
    async with row.keeper(pipe[1]) as keeper:
        assert len(row.began_s) == 1
        assert boottime() < keeper.deadline_ns / 1e9 <= row.began_s[0] + 30
        assert next_deadline_s(pipe[0]) == pytest.approx(keeper.deadline_ns / 1e9)


async def test_it_renews_each_third_of_a_lease(pipe: tuple[int, int]) -> None:
    row = Row(ttl_s=1.2)
    async with row.keeper(pipe[1]):
        await until(lambda: len(row.began_s) >= 3)
    gaps = [later - earlier for earlier, later in zip(row.began_s, row.began_s[1:], strict=False)]
    assert all(0.39 < gap < 1.2 for gap in gaps)
    assert row.lost == []


async def test_no_deadline_is_later_than_its_lease(pipe: tuple[int, int]) -> None:
    row = Row(ttl_s=0.3, granted_s=LONG_S)
    async with row.keeper(pipe[1]):
        await until(lambda: len(row.began_s) >= 4)
    deadlines = [next_deadline_s(pipe[0]) for _ in row.began_s[:-1]]
    assert len(deadlines) >= 3
    for began_s, deadline_s in zip(row.began_s, deadlines, strict=False):
        assert deadline_s <= began_s + LONG_S


async def test_a_renewal_under_way_hands_out_nothing(pipe: tuple[int, int]) -> None:
    row = Row(ttl_s=1)
    async with row.keeper(pipe[1]):
        next_deadline_s(pipe[0])
        row.hang = threading.Event()
        await until(lambda: len(row.began_s) == 2)
        assert not select.select([pipe[0]], [], [], 0)[0]
        row.hang.set()
        assert next_deadline_s(pipe[0]) <= row.began_s[1] + 1


async def test_a_world_that_is_down_for_a_moment_costs_nothing() -> None:
    row = Row(ttl_s=1)
    async with row.keeper() as keeper:
        first_ns = keeper.deadline_ns
        row.failure = DOWN
        await until(lambda: len(row.began_s) >= 4)
        assert keeper.deadline_ns == first_ns
        row.failure = None
        await until(lambda: keeper.deadline_ns > first_ns)
    assert row.lost == []


async def test_a_world_that_stays_down_loses_the_leases_at_their_deadline() -> None:
    row = Row(ttl_s=0.4)
    async with row.keeper() as keeper:
        row.failure = DOWN
        await until(lambda: row.lost)
        assert boottime() >= keeper.deadline_ns / 1e9
        renewals = len(row.began_s)
        await until(lambda: not keeper_threads())
    assert row.lost == [str(DOWN)]
    assert len(row.began_s) == renewals


async def test_any_other_failure_loses_them_at_once() -> None:
    row = Row(ttl_s=0.3, granted_s=LONG_S)
    async with row.keeper() as keeper:
        row.failure = RuntimeError("fenced")
        await until(lambda: row.lost)
        assert keeper.deadline_ns / 1e9 <= boottime()
    assert row.lost == ["the renewal failed: RuntimeError('fenced')"]


async def test_an_answer_after_the_deadline_loses_them(pipe: tuple[int, int]) -> None:
    row = Row(ttl_s=0.3)
    async with row.keeper(pipe[1]) as keeper:
        next_deadline_s(pipe[0])
        row.hang = threading.Event()
        await until(lambda: boottime() > keeper.deadline_ns / 1e9)
        row.hang.set()
        await until(lambda: row.lost)
    assert row.lost == ["the renewal was answered after the leases had run out"]
    assert not select.select([pipe[0]], [], [], 0)[0]


async def test_a_wedged_loop_is_not_renewed_and_loses_them() -> None:
    row = Row(ttl_s=0.6)
    async with row.keeper() as keeper:
        wedged_s = boottime()
        wedge(lambda: boottime() > keeper.deadline_ns / 1e9)
        last_s = row.began_s[-1]
        assert last_s <= wedged_s + 0.6 / 2
        await until(lambda: row.lost)
    assert row.lost == ["the event loop did not respond for half a lease"]
    assert row.began_s[-1] == last_s


async def test_a_loop_that_comes_back_in_time_keeps_them() -> None:
    row = Row(ttl_s=1.2)
    async with row.keeper() as keeper:
        wedge(lambda: boottime() > row.began_s[0] + 0.95)
        missed = len(row.began_s)
        await until(lambda: len(row.began_s) > missed)
        assert boottime() < keeper.deadline_ns / 1e9
    assert row.lost == []


async def test_a_first_renewal_that_fails_opens_nothing() -> None:
    row = Row(ttl_s=30, failure=DOWN)
    with pytest.raises(WorldUnavailable, match="it is down"):
        await row.keeper().__aenter__()
    assert row.lost == []


async def test_a_first_renewal_without_an_answer_opens_nothing(pipe: tuple[int, int]) -> None:
    row = Row(ttl_s=0.2, hang=threading.Event())
    with pytest.raises(WorldUnavailable, match=r"no renewal within 0\.2 s"):
        await row.keeper(pipe[1]).__aenter__()
    assert row.hang is not None
    row.hang.set()
    await until(lambda: not keeper_threads())
    assert not select.select([pipe[0]], [], [], 0)[0]


async def test_closing_is_bounded_and_a_late_answer_hands_out_nothing(pipe: tuple[int, int]) -> None:
    row = Row(ttl_s=0.6, granted_s=LONG_S)
    with anyio.fail_after(LIMIT_S):
        async with row.keeper(pipe[1]):
            next_deadline_s(pipe[0])
            row.hang = threading.Event()
            await until(lambda: len(row.began_s) == 2)
    row.hang.set()
    await until(lambda: not keeper_threads())
    assert not select.select([pipe[0]], [], [], 0)[0]
    assert row.lost == []


async def test_every_supervisor_is_told() -> None:
    row = Row(ttl_s=0.3, granted_s=LONG_S)
    told: list[int] = []
    async with row.keeper() as keeper:
        with keeper.feeding(told.append):
            assert told == [keeper.deadline_ns]
            await until(lambda: len(told) >= 3)
        heard = len(told)
        await until(lambda: len(row.began_s) >= heard + 2)
    assert len(told) == heard
    assert told == sorted(told)


async def test_a_supervisor_that_does_not_read_or_is_gone_hinders_nobody(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"0" * 20)
    write_deadline(writer, 1)
    os.close(reader)
    write_deadline(writer, 1)


def test_a_claim_takes_the_pipe_out_of_everybodys_sight(pipe: tuple[int, int]) -> None:
    _, writer = pipe
    os.set_inheritable(writer, True)  # noqa: FBT003 - the library's own signature
    environ = dict(
        zip(SUPERVISION_VARIABLES, (str(writer), str(os.getppid()), "/locks/worker-1"), strict=True)
    )
    environ["HOME"] = "/home"
    claimed = claim_supervision(environ)
    assert isinstance(claimed, Supervision)
    assert (claimed.deadline_fd, claimed.lock.name) == (writer, "worker-1")
    assert environ == {"HOME": "/home"}
    assert not os.get_inheritable(writer)
    assert claim_supervision(environ) is None


@pytest.mark.parametrize("broken", range(4))
def test_variables_meant_for_another_process_are_not_claimed(pipe: tuple[int, int], broken: int) -> None:
    values = [str(pipe[1]), str(os.getppid()), "/locks/worker-1"]
    if broken < 3:
        values[broken] = ["999", "1", ""][broken]
    else:
        values[0] = "none"
    environ = dict(zip(SUPERVISION_VARIABLES, values, strict=True))
    assert claim_supervision(environ) is None
    assert environ == {}


def keeper_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "outlast-keeper"]


def wedge(condition: Callable[[], bool]) -> None:
    """Block the event loop until something is true."""
    limit_s = boottime() + LIMIT_S
    while not condition():
        assert boottime() < limit_s
        time.sleep(0.001)
