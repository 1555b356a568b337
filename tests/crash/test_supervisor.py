import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.clock import boottime
from outlast.engine.machines import EXIT_UNSUPPORTED
from outlast.engine.processes import supervisor_argv
from outlast.engine.proof import Holder, host_id, prove_dead, read_lock
from outlast.engine.supervisor import EXIT_DEADLINE, EXIT_LOCK, EXIT_USAGE
from tests.crash.trees import LIMIT_S, Grove

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]


def proved(grove: Grove, lock: str = "worker-1") -> bool:
    return prove_dead(grove.locks, Holder(host_id(), lock))


def said(supervisor: subprocess.Popen[bytes]) -> str:
    assert supervisor.stderr is not None
    return supervisor.stderr.read().decode()


def test_sigkill_of_the_child_kills_what_detached_itself(grove: Grove) -> None:
    supervisor, members = grove.grow()
    assert not proved(grove)
    os.kill(members[0].pid, signal.SIGKILL)
    assert supervisor.wait(LIMIT_S) == 128 + signal.SIGKILL
    assert proved(grove)
    for member in members:
        with pytest.raises(OSError, match=r"Broken pipe|reset by peer"):
            [member.order("late_effect()") for _ in range(2)]
        assert member.is_gone()
    assert not grove.effect.exists()


def test_a_paused_child_dies_at_its_deadline(grove: Grove) -> None:
    supervisor, members = grove.grow(ttl_s=1)
    for member in members:
        os.kill(member.pid, signal.SIGSTOP)
    assert supervisor.wait(LIMIT_S) == EXIT_DEADLINE
    assert proved(grove)
    assert all(member.is_gone() for member in members)
    assert said(supervisor) == (
        f"outlast supervisor: no renewal within the lease: process {members[0].pid} was killed, "
        "with everything that it started\n"
    )


def test_an_unpaused_child_that_does_not_renew_dies_too(grove: Grove) -> None:
    supervisor, members = grove.grow(ttl_s=0.5)
    assert supervisor.wait(LIMIT_S) == EXIT_DEADLINE
    assert all(member.is_gone() for member in members)


def test_a_renewed_deadline_keeps_the_child_alive(grove: Grove) -> None:
    supervisor, (child, *_) = grove.grow(ttl_s=2)
    child.order("deadline(3600)")
    with pytest.raises(subprocess.TimeoutExpired):
        supervisor.wait(2.2)
    assert child.ask("'alive'") == "alive"
    child.order("deadline(-1)")
    assert supervisor.wait(LIMIT_S) == EXIT_DEADLINE


def test_many_deadlines_at_once_count_as_the_last(grove: Grove) -> None:
    supervisor, (child, *_) = grove.grow()
    child.order("[deadline(-1) if i == 2999 else deadline(3600) for i in range(3000)]")
    assert supervisor.wait(LIMIT_S) == EXIT_DEADLINE


def test_garbage_in_the_pipe_ends_the_tree(grove: Grove) -> None:
    supervisor, (child, *_) = grove.grow()
    child.order("os.write(int(os.environ['OUTLAST_DEADLINE_FD']), b'soon' * 5)")
    assert supervisor.wait(LIMIT_S) == EXIT_DEADLINE
    assert "garbage" in said(supervisor)
    assert proved(grove)


def test_sigkill_of_the_supervisor_kills_the_child_and_proves_nothing(grove: Grove) -> None:
    supervisor, members = grove.grow()
    supervisor.kill()
    supervisor.wait(LIMIT_S)
    assert members[0].dies()
    assert members[1].ask("'alive'") == "alive"
    assert not proved(grove)


def test_the_supervisor_around_it_proves_for_one_that_was_killed(grove: Grove) -> None:
    inner = supervisor_argv(grove.program(), lock=grove.locks / "attempt-1", ttl_s=60)
    inner[inner.index("--") : inner.index("--")] = ["--within", "worker-1"]
    outer = grove.supervise(inner)
    members = grove.gather("child", "detached", "orphan")
    record = read_lock(grove.locks / "attempt-1")
    assert record is not None
    os.kill(record.pid, signal.SIGSTOP)
    assert not proved(grove, "attempt-1")
    os.kill(record.pid, signal.SIGKILL)
    assert outer.wait(LIMIT_S) == 128 + signal.SIGKILL
    assert all(member.is_gone() for member in members)
    assert proved(grove, "attempt-1")


def test_no_descendant_holds_the_lock(grove: Grove) -> None:
    supervisor, members = grove.grow()

    def has_lock(pid: int) -> bool:
        return any(os.path.samestat(fd.stat(), grove.lock.stat()) for fd in Path(f"/proc/{pid}/fd").iterdir())

    assert [has_lock(member.pid) for member in members] == [False] * 3
    assert has_lock(supervisor.pid)


def test_the_command_gets_descriptors_that_were_meant_for_it_and_the_supervisor_drops_them(
    grove: Grove,
) -> None:
    reader, writer = os.pipe()
    argv = supervisor_argv(grove.program("alone"), lock=grove.lock, ttl_s=60)
    supervisor = subprocess.Popen(argv, pass_fds=[writer], stderr=subprocess.DEVNULL)
    os.close(writer)
    try:
        (child,) = grove.gather("alone")
        child.order(f"os.write({writer}, b'mine'); os.close({writer})")
        assert os.read(reader, 10) == b"mine"
        assert os.read(reader, 10) == b"", "end of file: the supervisor holds no copy"
        child.order("os._exit(0)")
        assert supervisor.wait(LIMIT_S) == 0
    finally:
        os.close(reader)
        supervisor.kill()
        supervisor.wait(LIMIT_S)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ("kill -KILL $$", 128 + signal.SIGKILL),
        ("sleep 600 & exit 4", 4),
    ],
)
def test_the_exit_status_is_that_of_the_command(grove: Grove, command: str, status: int) -> None:
    supervisor = grove.supervise(["sh", "-c", command])
    assert supervisor.wait(LIMIT_S) == status
    record = read_lock(grove.lock)
    assert record is not None
    assert record.status == status
    assert proved(grove)


@pytest.mark.parametrize(("program", "status"), [("no-such-program", 127), ("/etc/hostname", 126)])
def test_a_command_that_cannot_run_says_so(grove: Grove, program: str, status: int) -> None:
    supervisor = grove.supervise([program])
    assert supervisor.wait(LIMIT_S) == status
    assert f"cannot run {program}" in said(supervisor)
    assert proved(grove)


def test_the_name_of_a_lock_is_used_once(grove: Grove) -> None:
    grove.lock.touch()
    supervisor = grove.supervise(["true"])
    assert supervisor.wait(LIMIT_S) == EXIT_LOCK
    assert f"{grove.lock} exists" in said(supervisor)
    assert list(grove.locks.iterdir()) == [grove.lock]


def test_a_missing_lock_directory_is_named(grove: Grove) -> None:
    argv = supervisor_argv(["true"], lock=grove.locks / "no" / "lock", ttl_s=1)
    supervisor = grove.start(argv)
    assert supervisor.wait(LIMIT_S) == EXIT_LOCK
    assert "No such file or directory" in said(supervisor)


@pytest.mark.parametrize(
    "words", [[], ["--"], ["--lock", "x", "--", "true"], ["--lock", "x", "--ttl-s", "soon", "--", "true"]]
)
def test_a_wrong_command_line_shows_the_usage(grove: Grove, words: list[str]) -> None:
    program = supervisor_argv(["true"], lock=grove.lock, ttl_s=1)[:4]
    supervisor = grove.start([*program, *words])
    assert supervisor.wait(LIMIT_S) == EXIT_USAGE
    assert "usage: supervise.py" in said(supervisor)


def test_another_platform_is_told_what_is_supported(grove: Grove) -> None:
    code = (
        "import sys; sys.platform = 'plan9'; from outlast.engine.supervisor import main; "
        f"sys.exit(main(['--lock', {str(grove.lock)!r}, '--ttl-s', '1', '--', 'true']))"
    )
    supervisor = grove.start([sys.executable, "-c", code])
    assert supervisor.wait(LIMIT_S) == EXIT_UNSUPPORTED
    assert "on plan9. Supported: Linux" in said(supervisor)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_stop_signals_reach_the_command(grove: Grove, number: signal.Signals) -> None:
    supervisor, (child, *_) = grove.grow()
    child.order(f"signal.signal({number}, lambda *_: os._exit(7)); say('ready')")
    assert child.connection.recv(10) == b"ready"
    supervisor.send_signal(number)
    assert supervisor.wait(LIMIT_S) == 7
    assert proved(grove)


def test_what_a_command_leaves_behind_gets_the_grace(grove: Grove) -> None:
    supervisor = grove.supervise(grove.program(), grace_s=LIMIT_S)
    child, detached, orphan = grove.gather("child", "detached", "orphan")
    for member in (detached, orphan):
        member.order("signal.signal(signal.SIGTERM, lambda *_: (late_effect(), os._exit(0))); say('ready')")
        assert member.connection.recv(10) == b"ready"
    child.order("os._exit(5)")
    assert supervisor.wait(LIMIT_S) == 5
    assert grove.effect.read_text() in {"detachedorphan", "orphandetached"}


def test_control_c_arrives_once_and_control_z_not_at_all(grove: Grove) -> None:
    terminal, line = pty.openpty()
    into_terminal = (
        "import os, sys; os.setsid(); line = os.open(sys.argv[1], os.O_RDWR); "
        "[os.dup2(line, fd) for fd in range(3)]; os.execv(sys.argv[2], sys.argv[2:])"
    )
    argv = supervisor_argv(grove.program("alone"), lock=grove.lock, ttl_s=60)
    supervisor = grove.start([sys.executable, "-I", "-S", "-c", into_terminal, os.ttyname(line), *argv])
    try:
        (child,) = grove.gather("alone")
        child.order("signal.signal(signal.SIGINT, lambda *_: (late_effect(), say('once'))); say('ready')")
        assert child.connection.recv(10) == b"ready"
        os.write(terminal, b"\x1a")
        assert child.ask("'running'") == "running"
        os.write(terminal, b"\x03")
        assert child.connection.recv(10) == b"once"
        child.order("signal.signal(signal.SIGTERM, lambda *_: os._exit(8)); say('ready')")
        assert child.connection.recv(10) == b"ready"
        # Behind whatever the supervisor may have made of the interrupt.
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(LIMIT_S) == 8
        assert grove.effect.read_text() == "alone"
    finally:
        os.close(terminal)
        os.close(line)


def test_a_process_that_forks_and_exits_all_the_time_is_caught(grove: Grove) -> None:
    comet = "import os; os.fork() or (os.setsid(), [os.fork() and os._exit(0) for _ in iter(int, 1)])"
    supervisor = grove.supervise([sys.executable, "-I", "-S", "-c", comet])
    assert supervisor.wait(LIMIT_S) == 0
    assert proved(grove)


def test_the_record_names_holder_and_end(grove: Grove) -> None:
    supervisor, (child, *_) = grove.grow()
    alive = json.loads(grove.lock.read_text())
    assert alive["pid"] == supervisor.pid
    assert "dead" not in alive
    child.order("os._exit(0)")
    supervisor.wait(LIMIT_S)
    dead = json.loads(grove.lock.read_text())
    assert dead == alive | {"dead": True, "why": dead["why"], "status": 0}
    assert dead["why"] in {"exit", "released"}


def test_it_starts_without_the_rest_of_outlast(grove: Grove) -> None:
    program = supervisor_argv(["true"], lock=grove.lock, ttl_s=5)
    program[1:1] = ["-X", "importtime"]
    began_s = boottime()
    supervisor = grove.start(program)
    _, report = supervisor.communicate(timeout=LIMIT_S)
    imported = {line.rpartition("|")[2].strip() for line in report.decode().splitlines()}
    assert {name for name in imported if name.startswith("outlast")} == {"outlast.engine.machines"}
    assert not imported & {"site", "json", "typing", "dataclasses", "pathlib", "subprocess", "argparse", "re"}
    assert boottime() - began_s < 5
