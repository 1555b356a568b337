"""Whichever process of a bubblewrap box is killed: the box has ended, that is proved, and another can be made."""

import os
import resource
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from outlast.clock import ManualClock, SystemClock
from outlast.engine.machines import stat_fields
from outlast.errors import BoxError, BoxGone, Fenced
from outlast.sandbox import Box, JobAsk, Limits, Mount
from outlast.testing.sandbox_contract.blocks import until
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from outlast.workspaces.sandbox.bubblewrap.places import BOXES, Place
from tests.sandboxes.grounds import OnBubblewrap, first_of, marked, on_bubblewrap

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap"),
]


@pytest.fixture
async def ground() -> AsyncGenerator[OnBubblewrap]:
    async with on_bubblewrap() as there:
        assert isinstance(there, OnBubblewrap)
        yield there


def parent_of(ground: OnBubblewrap, box: Box) -> int:
    lock = Place(ground.data, box.ref["name"]).path / "lock"
    return msgspec.json.decode(lock.read_bytes())["pid"]


def bubblewrap_of(ground: OnBubblewrap, box: Box) -> int:
    return int(stat_fields(first_of(ground.data, box.ref))[1])


def supervisor_of(ground: OnBubblewrap, box: Box) -> int:
    return first_of(ground.data, box.ref)


VICTIMS = {"parent": parent_of, "bubblewrap": bubblewrap_of, "supervisor": supervisor_of}


@pytest.mark.parametrize("victim", VICTIMS.values(), ids=VICTIMS.keys())
async def test_a_killed_process_ends_the_box(
    ground: OnBubblewrap, victim: Callable[[OnBubblewrap, Box], int]
) -> None:
    spec = replace(ground.spec, idle_s=60)
    async with ground.provider().attach(spec, 1) as box:
        job = await box.begin(JobAsk("job", ["sh", "-c", "setsid sleep 600 & exec sleep 600"]))
        assert marked(ground.name)
        os.kill(victim(ground, box), signal.SIGKILL)
        with pytest.raises(BoxGone):
            await job.wait()
        async with ground.provider().attach(spec, 2) as again:
            assert not again.lived
            assert not marked(ground.name), "what the box left died before the next one was made"
            assert await again.find("job") is None


async def test_all_of_them_killed_at_once_is_an_end_too(ground: OnBubblewrap) -> None:
    spec = replace(ground.spec, idle_s=60)
    async with ground.provider().attach(spec, 1) as box:
        await box.begin(JobAsk("job", ["sleep", "600"]))
        pids = [victim(ground, box) for victim in VICTIMS.values()]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)
        async with ground.provider().attach(spec, 2) as again:
            assert not again.lived
            assert not marked(ground.name)


@pytest.mark.parametrize("victim", VICTIMS.values(), ids=VICTIMS.keys())
async def test_a_stopped_process_does_not_hold_up_the_end(
    ground: OnBubblewrap, victim: Callable[[OnBubblewrap, Box], int]
) -> None:
    spec = replace(ground.spec, idle_s=60)
    async with ground.provider().attach(spec, 1) as box:
        await box.begin(JobAsk("job", ["sleep", "600"]))
        os.kill(victim(ground, box), signal.SIGSTOP)
        await ground.provider().destroy(box.ref)
        assert not marked(ground.name)


async def test_a_box_that_is_to_see_other_files_is_made_anew(ground: OnBubblewrap, tmp_path: Path) -> None:
    spec = replace(ground.spec, idle_s=60)
    async with ground.provider().attach(spec, 1) as box:
        await box.begin(JobAsk("job", ["sleep", "600"]))
    for fence, other in enumerate([
        replace(spec, mounts=[Mount(tmp_path, "/data")]),
        replace(spec, limits=Limits(processes=50)),
        replace(spec, cwd="/elsewhere"),
    ], start=2):  # fmt: skip
        async with ground.provider().attach(other, fence) as box:
            assert not box.lived
            assert await box.find("job") is None
        async with ground.provider().attach(other, fence) as box:
            assert box.lived


async def test_an_older_fence_is_refused_when_the_box_of_the_newer_is_gone(ground: OnBubblewrap) -> None:
    async with ground.provider().attach(ground.spec, 7):
        pass
    with pytest.raises(Fenced):
        async with ground.provider().attach(ground.spec, 6):
            pass


async def test_what_ended_boxes_left_is_swept_when_another_is_attached(ground: OnBubblewrap) -> None:
    spec = replace(ground.spec, idle_s=0.1)
    async with ground.provider().attach(spec, 1) as box:
        pass
    place = Place(ground.data, spec.name)

    async def ended() -> bool:
        return place.state() == "ended"

    await until(ended, "it ends by its idle time")
    assert place.path.exists()
    async with ground.provider().attach(replace(spec, name="another"), 1) as other:
        assert not place.path.exists()
        await ground.provider().destroy(other.ref)
    await ground.provider().destroy(box.ref)


async def test_names_without_a_box_are_forgotten_after_a_month(ground: OnBubblewrap) -> None:
    clock = ManualClock(SystemClock().now())
    provider = Bubblewrap(ground.data, clock=clock)
    guards = ground.data / BOXES / ".guards"
    async with provider.attach(replace(ground.spec, name="one"), 3):
        pass
    clock.turn(29 * 86_400)
    async with provider.attach(replace(ground.spec, name="two"), 1):
        assert sorted(path.name for path in guards.iterdir()) == ["one", "two"]
    clock.turn(2 * 86_400)
    async with provider.attach(replace(ground.spec, name="three"), 1):
        assert [path.name for path in guards.iterdir()] == ["three"]
    async with provider.attach(replace(ground.spec, name="one"), 1):
        pass


async def test_a_data_directory_may_have_a_long_path(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 30) / ("longer" * 20)
    async with Bubblewrap(data).attach(replace(OnBubblewrap(data).spec, idle_s=0), 1) as box:
        assert await (await box.begin(JobAsk("job", ["true"]))).wait() == 0


@pytest.fixture
def many_descriptors() -> Generator[None]:
    """More than a thousand, as a worker of many sessions has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    fds = [os.dup(2) for _ in range(1100)]
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
async def test_a_worker_of_many_descriptors_makes_boxes_and_ends_them(ground: OnBubblewrap) -> None:
    async with ground.provider().attach(replace(ground.spec, idle_s=60), 1) as box:
        os.kill(parent_of(ground, box), signal.SIGSTOP)
        await ground.provider().destroy(box.ref)
    assert await ground.left(box.ref) == []


async def test_a_worker_without_descriptors_ends_no_box(ground: OnBubblewrap) -> None:
    spec = replace(ground.spec, idle_s=60)
    provider = ground.provider()
    async with provider.attach(spec, 1) as box:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(BoxError) as refused:
                await provider.dial(box.ref)
            with pytest.raises(OSError, match="Too many open files"):
                Place(ground.data, spec.name).state()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert not isinstance(refused.value, BoxGone)
        assert await (await box.begin(JobAsk("job", ["true"]))).wait() == 0


async def test_nothing_is_mounted_from_where_nothing_is(ground: OnBubblewrap, tmp_path: Path) -> None:
    spec = replace(ground.spec, mounts=[Mount(tmp_path / "none", "/data")])
    with pytest.raises(BoxError, match="is not there"):
        async with ground.provider().attach(spec, 1):
            pass
    assert not list((ground.data / BOXES).glob("*/lock"))
