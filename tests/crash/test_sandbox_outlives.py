"""A sandbox that is to outlive its worker does so under the worker's supervisor, and nothing else does."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from outlast.engine.machines import stat_fields
from outlast.engine.processes import supervisor_argv
from outlast.engine.proof import Holder, host_id, prove_dead
from outlast.sandbox import JobAsk
from tests.sandboxes.grounds import OnBubblewrap, marked, on_bubblewrap

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap"),
]
LINE = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.3; done; exit 6"


@contextmanager
def supervised(ground: OnBubblewrap, spared: str) -> Generator[tuple[subprocess.Popen[str], Path]]:
    """A supervised worker that holds the ground's box; its supervisor, and the directory of its lock."""
    with TemporaryDirectory() as locks:
        worker = [
            sys.executable,
            "-m",
            "tests.sandboxes.supervised",
            str(ground.data),
            ground.name,
            LINE,
            spared,
        ]
        argv = supervisor_argv(worker, lock=Path(locks) / "worker-1", ttl_s=60)
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        ) as supervisor:
            assert supervisor.stdout is not None
            assert supervisor.stdout.readline() == "held\n"
            yield supervisor, Path(locks)
            supervisor.kill()


def worker_of(supervisor: int) -> int:
    """The first child of the supervisor: the worker."""
    below = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return min(pid for pid in below if _parent(pid) == supervisor)


def _parent(pid: int) -> int:
    try:
        return int(stat_fields(pid)[1])
    except OSError:
        return -1


async def test_a_spared_sandbox_goes_on_when_its_worker_is_killed() -> None:
    async with on_bubblewrap() as ground:
        assert isinstance(ground, OnBubblewrap)
        with supervised(ground, "spared") as (supervisor, locks):
            os.kill(worker_of(supervisor.pid), signal.SIGKILL)
            assert await anyio.to_thread.run_sync(supervisor.wait) == 137
            assert prove_dead(locks, Holder(host_id(), "worker-1"))
            async with ground.provider().attach(replace(ground.spec, idle_s=60), 2) as box:
                assert box.lived
                tied, job = await box.find("harness"), await box.find("command")
                assert tied is not None
                assert await tied.wait() == 137
                assert job is not None
                assert await job.wait() == 6
                said = b"".join([piece async for _, piece in job.output("stdout")])
                assert said == b"".join(b"line %d\n" % number for number in range(1, 7))


async def test_a_sandbox_that_nobody_spares_dies_with_its_worker() -> None:
    async with on_bubblewrap() as ground:
        assert isinstance(ground, OnBubblewrap)
        with supervised(ground, "not") as (supervisor, locks):
            assert marked(ground.name)
            os.kill(worker_of(supervisor.pid), signal.SIGKILL)
            assert await anyio.to_thread.run_sync(supervisor.wait) == 137
            assert prove_dead(locks, Holder(host_id(), "worker-1"))
            assert not marked(ground.name)
            async with ground.provider().attach(replace(ground.spec, idle_s=60), 2) as box:
                assert not box.lived
                assert await (await box.begin(JobAsk("again", ["true"]))).wait() == 0
