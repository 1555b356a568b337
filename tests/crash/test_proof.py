import os
import signal
import sys
import threading
from pathlib import Path
from statistics import median

import anyio
import pytest

from outlast.clock import ManualClock, SystemClock, boottime
from outlast.engine.proof import Holder, host_id, prove_dead, sweep_locks, watch_death
from tests.crash.trees import LIMIT_S, Grove, milliseconds_since

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

HERE = host_id()


def holder(lock: str = "worker-1") -> Holder:
    return Holder(HERE, lock)


def end(grove: Grove, lock: str = "worker-1") -> None:
    """Leave the lock of a supervisor that ended in good order."""
    supervisor = grove.supervise(["true"], lock=grove.locks / lock)
    assert supervisor.wait(LIMIT_S) == 0


def test_fifty_provers_at_once_see_the_same(grove: Grove) -> None:
    supervisor, (child, *_) = grove.grow()

    def ask_fifty(times: int) -> set[bool]:
        answers: set[bool] = set()
        gate = threading.Barrier(50)

        def ask() -> None:
            gate.wait(LIMIT_S)
            answers.update(prove_dead(grove.locks, holder(), here=HERE) for _ in range(times))

        threads = [threading.Thread(target=ask) for _ in range(50)]
        [thread.start() for thread in threads]
        [thread.join(LIMIT_S) for thread in threads]
        return answers

    assert ask_fifty(40) == {False}
    os.kill(child.pid, signal.SIGKILL)
    supervisor.wait(LIMIT_S)
    assert ask_fifty(40) == {True}


def test_a_prover_makes_no_file_and_believes_no_absent_one(tmp_path: Path) -> None:
    assert not prove_dead(tmp_path, holder())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1, "start": 2}', '{"pid": 1, "start": 2, "dead": "group"}']
)
def test_a_free_lock_without_its_last_word_proves_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "worker-1").write_text(content)
    assert not prove_dead(tmp_path, holder())


def test_locks_that_name_each_other_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"pid": 1, "start": 2, "within": "b"}')
    (tmp_path / "b").write_text('{"pid": 1, "start": 2, "within": "a"}')
    assert not prove_dead(tmp_path, holder("a"))


def test_another_host_proves_nothing(grove: Grove) -> None:
    end(grove)
    assert prove_dead(grove.locks, holder())
    assert not prove_dead(grove.locks, Holder("elsewhere", "worker-1"))
    assert not prove_dead(grove.locks, holder(), here="elsewhere")


async def ms_until_noticed(grove: Grove, lock: str) -> float:
    grove.members.clear()
    supervisor = grove.supervise(grove.program(), lock=grove.locks / lock)
    child, *_ = grove.gather("child", "detached", "orphan")
    began_s: list[float] = []

    async def kill() -> None:
        await anyio.wait_all_tasks_blocked()
        began_s.append(boottime())
        os.kill(child.pid, signal.SIGKILL)

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            await watch_death(grove.locks, holder(lock))
    took_ms = milliseconds_since(began_s[0])
    assert prove_dead(grove.locks, holder(lock))
    supervisor.wait(LIMIT_S)
    return took_ms


async def test_a_death_is_noticed_and_proved_at_once(grove: Grove) -> None:
    took_ms = [await ms_until_noticed(grove, f"round-{number}") for number in range(5)]
    assert median(took_ms) < 50, took_ms


async def test_a_watch_on_the_living_the_unproved_and_the_foreign_goes_on(grove: Grove) -> None:
    grove.grow()
    killed = grove.supervise(grove.program("alone"), lock=grove.locks / "killed")
    grove.gather("alone")
    killed.kill()
    killed.wait(LIMIT_S)
    for watched in (holder(), holder("killed"), holder("absent"), Holder("elsewhere", "worker-1")):
        with anyio.move_on_after(0.15) as scope:
            await watch_death(grove.locks, watched)
        assert scope.cancelled_caught, watched


async def test_a_watch_that_began_before_the_holder_sees_its_death(grove: Grove) -> None:
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch_death, grove.locks, holder())
            await anyio.wait_all_tasks_blocked()
            end(grove)


async def test_a_sweep_keeps_what_lives_what_is_named_and_what_proves_for_it(grove: Grove) -> None:
    for lock in ("named", "outer", "forgotten"):
        end(grove, lock)
    (grove.locks / "inner").write_text('{"pid": 1, "start": 2, "within": "outer"}')
    grove.grow()

    async def named() -> set[str]:
        return {"named", "inner"}

    async def sweep(older_than_s: float) -> list[str]:
        return await sweep_locks(grove.locks, older_than_s=older_than_s, keep=named, clock=SystemClock())

    assert await sweep(3600) == []
    assert await sweep(-1) == ["forgotten"]
    assert prove_dead(grove.locks, holder("inner"))
    assert sorted(path.name for path in grove.locks.iterdir()) == ["inner", "named", "outer", "worker-1"]


async def test_a_lock_whose_holder_took_a_last_lease_during_the_sweep_is_kept(grove: Grove) -> None:
    supervisor, (child, *_) = grove.grow()

    async def holder_takes_a_lease_and_dies() -> set[str]:
        os.kill(child.pid, signal.SIGKILL)
        supervisor.wait(LIMIT_S)
        return set()  # read before that lease was taken

    late = ManualClock(now=4_000_000_000)
    swept = await sweep_locks(grove.locks, older_than_s=60, keep=holder_takes_a_lease_and_dies, clock=late)
    assert swept == []
    assert prove_dead(grove.locks, holder())


def test_the_host_has_one_name_until_it_starts_again(tmp_path: Path) -> None:
    def host(name: str, machine: str, boot: str) -> Path:
        root = tmp_path / name
        (root / "etc").mkdir(parents=True)
        (root / "etc/machine-id").write_text(machine)
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text(boot)
        return root

    first = host("first", "m", "b")
    assert host_id() == HERE
    assert host_id(first) == host_id(first)
    assert len({host_id(first), host_id(host("rebooted", "m", "c")), host_id(host("other", "n", "b"))}) == 3
    assert host_id(tmp_path) != host_id(tmp_path), "a host that cannot be told from others proves nothing"


def test_a_holder_survives_its_text_form() -> None:
    assert Holder.parse(str(holder("worker-1.b_2"))) == holder("worker-1.b_2")


@pytest.mark.parametrize(
    "text", ["", "host", "host/", "/lock", "host/../etc", "host/a/b", "host/.hidden", "ho st/a"]
)
def test_a_foreign_text_is_no_holder(text: str) -> None:
    with pytest.raises(ValueError, match="use letters"):
        Holder.parse(text)
