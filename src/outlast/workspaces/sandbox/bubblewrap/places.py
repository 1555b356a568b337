"""Where the boxes of a worker's machine are, who may make one, and how the end of one is proved.

Below `<data>/boxes`, each session's name has

* `.guards/<name>`: held while a box of it is made, ended or swept. It holds the highest fence that ever attached.
* `<name>/`: of the box that stands. `lock` in it is held by the box's parent (`outer.keeping`) until nothing of it
  lives; `supervisor` and `end` are sockets; `box.json` says what it is.

Invariants: whoever makes or removes `<name>/` holds its guard; a box whose `lock` is held stands; one whose lock is
free has ended if the lock says so, and otherwise when its first process, which the lock names, has.
"""

import fcntl
import os
import re
import select
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from outlast.clock import boottime
from outlast.errors import BadInput, BoxError
from outlast.folders import make_private
from outlast.workspaces.sandbox.bubblewrap.outer import keeping
from outlast.workspaces.unix import connect

BOXES: Final = "boxes"
_GUARDS: Final = ".guards"
_FORGOTTEN_S: Final = 30 * 86_400.0
_LOOK_AGAIN_S: Final = 86_400.0
_NAME: Final = re.compile(r"[a-z0-9][A-Za-z0-9._-]{0,199}")
_LOOK_S: Final = 0.005
_ENDING_S: Final = 20.0
_DEAF_S: Final = 3.0
"""How long the parent of a box may take to end it before it is killed itself."""
_GUARD_S: Final = 90.0


class Card(msgspec.Struct, frozen=True):
    """What stands in `box.json`."""

    name: str
    labels: Mapping[str, str]
    life: str
    digest: str
    """Of what cannot be changed while it stands: mounts, limits."""
    born_s: float
    idle_s: float


class _LockRecord(msgspec.Struct, frozen=True):
    pid: int = 0
    pid_start: int = 0
    first: int = 0
    start: int = 0
    boot: str = ""
    dead: bool = False


class Place:
    """The directory of one name's boxes."""

    def __init__(self, data: Path, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise BadInput(
                detail=f"{name!r} is no name for a sandbox: use letters, digits, '.', '_' and '-'."
            )
        self.name = name
        self.path = data.absolute() / BOXES / name
        self._guard = self.path.parent / _GUARDS / name

    @property
    def card(self) -> Card | None:
        """Of the box that was made here last. Raises OSError: it cannot be read now, which says nothing of the box."""
        try:
            return msgspec.json.decode((self.path / "box.json").read_bytes(), type=Card)
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None

    def write_card(self, card: Card) -> None:
        (self.path / "box.json").write_bytes(msgspec.json.encode(card))

    def said(self) -> str:
        """What bubblewrap said, in one line."""
        try:
            return " ".join((self.path / keeping.LOG).read_text("utf-8", "replace").split())[:2_000]
        except OSError:
            return ""

    def state(self) -> Literal["running", "ending", "ended"]:
        """Whether a box stands here; `ending`: its parent was killed, and something of it may live a moment longer.

        Raises:
            OSError: it cannot be found out now. That is no end: another box beside one that stands would be two.
        """
        try:
            fd = os.open(self.path / keeping.LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return "ended"
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            record = msgspec.json.decode(os.read(fd, 4096) or b"{}", type=_LockRecord)
        except BlockingIOError:
            return "running"
        except msgspec.DecodeError:
            return "ended"
        finally:
            os.close(fd)
        return "ended" if record.dead or not _lives(record) else "ending"

    async def end(self) -> None:
        """End the box that stands here. When this returns nothing of it lives.

        Raises:
            BoxError: it does not die.
        """
        asked, deaf_s = False, boottime() + _DEAF_S
        with anyio.move_on_after(_ENDING_S, shield=True):
            while (state := self.state()) != "ended":
                if state == "ending" or boottime() > deaf_s:
                    _kill(self.path / keeping.LOCK)
                elif not asked:
                    with suppress(OSError):
                        async with await connect(self.path / keeping.END):
                            asked = True
                await anyio.sleep(_LOOK_S)
            return
        raise BoxError(box=self.name, reason="it does not die: a process of it hangs in the kernel.")

    def clear(self) -> None:
        """Remove what an ended box left. Under `guarded`."""
        shutil.rmtree(self.path, ignore_errors=True)

    def make(self) -> None:
        """Make the directory anew. Under `guarded`."""
        self.clear()
        make_private(self.path)

    async def guard(self) -> "Guard":
        """Wait for the right to make and end boxes here. Release it.

        Raises:
            BoxError: another worker has it for longer than that takes; it may be stopped.
            OSError: the directory cannot be written.
        """
        make_private(self._guard.parent)
        with anyio.move_on_after(_GUARD_S):
            while (guard := self.guard_now()) is None:  # noqa: ASYNC110 - another process has it
                await anyio.sleep(_LOOK_S)
            return guard
        raise BoxError(
            box=self.name, reason=f"another worker makes or ends it, and has not done so in {_GUARD_S:g} s."
        )

    def guard_now(self) -> "Guard | None":
        """The right to make and end boxes here, if nobody has it."""
        fd = os.open(self._guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        if not _is_named(fd, self._guard):
            os.close(fd)  # swept in that moment
            return None
        return Guard(fd)

    def forget(self, now_s: float) -> None:
        """Remove what is left of a name that had no box for a month. Under its guard."""
        if not self.path.exists() and now_s - self._guard.stat().st_mtime > _FORGOTTEN_S:
            self._guard.unlink()


class Guard:
    """The right to make and end the boxes of one name; it remembers their highest fence."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @property
    def fence(self) -> int:
        text = os.pread(self._fd, 64, 0).strip()
        return int(text) if text.isdigit() else 0

    def raise_fence(self, fence: int) -> None:
        os.pwrite(self._fd, f"{fence:>20}\n".encode(), 0)

    def release(self) -> None:
        """Once or more often."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def forgotten(data: Path, now_s: float) -> Iterator[Place]:
    """Those of all names that may have had no box for a month. Looked for once a day: there may be many."""
    looked = data.absolute() / BOXES / ".looked"
    if looked.exists() and now_s - looked.stat().st_mtime < _LOOK_AGAIN_S:
        return
    looked.touch()
    os.utime(looked, (now_s, now_s))
    for path in (data.absolute() / BOXES / _GUARDS).iterdir():
        if now_s - path.stat().st_mtime > _FORGOTTEN_S:
            yield Place(data, path.name)


def _is_named(fd: int, path: Path) -> bool:
    try:
        return os.fstat(fd).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def places(data: Path) -> Iterator[Place]:
    """Those of all names that had a box."""
    directory = data.absolute() / BOXES
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        if path.is_dir() and _NAME.fullmatch(path.name):
            yield Place(data, path.name)


def _lives(record: _LockRecord) -> bool:
    """The first process of the box is there: its pid, begun when it was."""
    return record.boot == keeping.boot_id() and _start_of(record.first) == record.start


def _start_of(pid: int) -> int:
    """When a process began, in clock ticks since boot; -1: it is not there."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return int(stat.rpartition(b")")[2].split()[19])


def _kill(lock: Path) -> None:
    """Kill the first process of the box that a lock names, and its parent outside, which may be stopped.

    The kernel ends all that is in the box before its first process is gone.
    """
    try:
        record = msgspec.json.decode(lock.read_bytes(), type=_LockRecord)
    except (OSError, msgspec.DecodeError):
        return
    if record.boot == keeping.boot_id():
        for pid, start in ((record.first, record.start), (record.pid, record.pid_start)):
            _kill_one(pid, start)


def _wait_for(fd: int, most_s: float) -> None:
    waiting = select.poll()  # not `select.select`, which fails for the thousandth descriptor of a worker
    waiting.register(fd, select.POLLIN)
    waiting.poll(most_s * 1000)


def _kill_one(pid: int, start: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if (
            _start_of(pid) == start
        ):  # asked after opening: the descriptor means no later process of that number
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            _wait_for(pidfd, 1.0)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)
