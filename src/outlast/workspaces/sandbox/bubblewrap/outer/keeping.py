"""The parent of a box on the worker's machine: begins bubblewrap, and proves its end.

It holds the lock of the box's directory alone, is a child subreaper, and lets go of the lock only when no child is
left: so a free lock that says `dead` means that nothing of the box lives. If it is killed itself, bubblewrap dies with
it and the box with that, a moment later; what stands in the lock then names the first process of the box, whose end is
that of all.

Standard input holds one frame: what to begin. With `hold`, the box ends when standard input does. The box also ends
when somebody connects to the socket `end` of the directory. Standard output gets one line, `ok PID` or what is wrong.
"""

# ruff: noqa: PTH101, PTH102, PTH103, PTH106, PTH108, PTH110, PTH112, PTH118, PTH123
# pathlib would double the start-up time.

from __future__ import annotations

import _socket
import ctypes
import fcntl
import os
import select
import time

from outlast.workspaces.sandbox.inside.trees import SIGKILL, descendants, send
from outlast.workspaces.sandbox.inside.wire import Unpacker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOCK = "lock"
SOCKET = "supervisor"
END = "end"
LOG = "log"
_BACKLOG = 128
_SET_DEATH_SIGNAL = 1
_SET_SUBREAPER = 36
_NEW_MOUNTS = 0x20000
_NO_SUID, _BIND, _RECURSIVE, _PRIVATE = 2, 4096, 16384, 1 << 18
_STAGES = ("/mnt", "/media", "/srv", "/opt")
_SWAP = ("memory.swap.max", "memory.memsw.limit_in_bytes")
"""Files of control groups that not every kernel has."""
_PAUSE_S = 0.002
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """The box cannot be begun."""


def main() -> int:
    """Begin what standard input says. Returns at once in the first process, at the box's end in its child."""
    try:
        asked = _read_frame()
        os.chdir(asked["directory"])
        lock = _take_lock()
        ends = _listen(END)
        inner = _listen(SOCKET)
    except (OSError, Failure) as wrong:
        os.write(1, f"the directory of the box: {wrong}\n".encode())
        return 1
    if os.fork():
        return 0
    os.setsid()
    _libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    return _keep(asked, lock, ends, inner)


def _keep(asked: dict[str, Any], lock: int, ends: _socket.socket, inner: _socket.socket) -> int:
    groups: list[str] = []
    try:
        groups = _make_groups(asked["groups"])
        box, first = _begin(asked, inner, groups)
        os.pwrite(lock, _record(first), 0)
    except (OSError, Failure) as wrong:
        _end(lock, groups, str(wrong))
        return 1
    inner.close()
    os.write(1, b"ok %d\n" % os.getpid())
    _let_go(1)
    _let_go(2)  # a box that outlives its worker must not keep that one's output open
    if not asked["hold"]:
        _let_go(0)
    _watch(box, ends, hold=bool(asked["hold"]))
    send([box], SIGKILL)
    _end(lock, groups, "")
    return 0


def _end(lock: int, groups: list[str], why: str) -> None:
    """Kill and reap until there is no child; then the proof."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            break
        send(descendants(os.getpid()), SIGKILL)
        time.sleep(_PAUSE_S)
    for group in groups:
        try:
            os.rmdir(group)
        except OSError:
            continue  # a sweep finds it
    for name in (SOCKET, END):
        os.unlink(name)
    os.ftruncate(lock, 0)
    os.pwrite(lock, b'{"dead": true}\n', 0)
    if why:
        os.write(1, f"{why}\n".encode())


def _watch(box: int, ends: _socket.socket, *, hold: bool) -> None:
    """Return when the box has ended or is to end."""
    poll = select.poll()
    gone = os.pidfd_open(box)
    poll.register(gone, select.POLLIN)
    poll.register(ends.fileno(), select.POLLIN)
    if hold:
        poll.register(0, select.POLLIN | select.POLLHUP)
    poll.poll()


def _begin(asked: dict[str, Any], inner: _socket.socket, groups: list[str]) -> tuple[int, int]:
    """Start bubblewrap. Returns its pid and that of the first process inside, as they are here."""
    info, info_w = os.pipe()
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    me = os.getpid()
    box = os.fork()
    if box == 0:
        try:
            _libc.prctl(_SET_DEATH_SIGNAL, SIGKILL, 0, 0, 0)
            if os.getppid() != me:
                os._exit(1)
            _become(asked, inner.fileno(), info_w, log, groups)
        except OSError as wrong:
            os.write(log, f"{wrong}\n".encode())
        finally:
            os._exit(1)
    os.close(info_w)
    os.close(log)
    said = b""
    while piece := os.read(info, 4096):
        said += piece
    os.close(info)
    digits = said.partition(b'"child-pid":')[2].strip()
    first = digits[: len(digits) - len(digits.lstrip(b"0123456789"))]
    if not first:
        os.waitpid(box, 0)
        with open(LOG, "rb") as text:
            raise Failure(
                " ".join(text.read(4000).decode("utf-8", "replace").split()) or "bubblewrap says nothing"
            )
    return box, int(first)


def _become(asked: dict[str, Any], inner: int, info: int, log: int, groups: list[str]) -> None:
    for group in groups:
        _write(os.path.join(group, "cgroup.procs"), str(os.getpid()))
    passed = [inner, info]
    words = [asked["program"], "--info-fd", str(info)]
    steps = asked["steps"]
    if asked["uid"] >= 0:
        steps = _staged(steps)
    for step in steps:
        words += _words(step, passed)
    words += ["--", *(word if word != "{fd}" else str(inner) for word in asked["argv"])]
    if asked["uid"] >= 0:
        os.setgroups([])
        os.setresgid(asked["gid"], asked["gid"], asked["gid"])
        os.setresuid(asked["uid"], asked["uid"], asked["uid"])
        _libc.prctl(_SET_DEATH_SIGNAL, SIGKILL, 0, 0, 0)  # the kernel forgets it with the old user
    for fd in passed:
        os.set_inheritable(fd, True)  # noqa: FBT003 - the library's own signature
    nothing = os.open(os.devnull, os.O_RDWR)
    for target, fd in enumerate((nothing, log, log)):
        os.dup2(fd, target)
    os.execve(words[0], words, asked["env"])  # noqa: S606 - no shell is the point


def _staged(steps: list[list[Any]]) -> list[list[Any]]:
    """As root, for another user: what that user may not walk to, at a place where it may. Only the box sees the place.

    Where root may mount nothing, the steps as they are: bubblewrap says what it cannot reach.
    """
    stage = next(path for path in _STAGES if os.path.isdir(path))
    if _libc.unshare(_NEW_MOUNTS) != 0 or not _mount(b"none", "/", _PRIVATE | _RECURSIVE):
        return steps
    sources = {
        step[1]: os.open(step[1], os.O_PATH | os.O_CLOEXEC) for step in steps if step[0].endswith("bind")
    }
    if not _mount(b"tmpfs", stage, _NO_SUID, b"tmpfs", b"mode=755"):
        return steps
    at: dict[str, str] = {}
    for source, fd in sources.items():
        at[source] = os.path.join(stage, str(fd))
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            os.mkdir(at[source])
        else:
            os.close(os.open(at[source], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))
        if not _mount(f"/proc/self/fd/{fd}".encode(), at[source], _BIND | _RECURSIVE):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), source)
    return [[step[0], at[step[1]], *step[2:]] if step[0].endswith("bind") else step for step in steps]


def _mount(source: bytes, target: str, flags: int, kind: bytes = b"", data: bytes = b"") -> bool:
    return _libc.mount(source, target.encode(), kind or None, ctypes.c_ulong(flags), data or None) == 0


def _words(step: list[Any], passed: list[int]) -> list[str]:
    """One step of the set-up as bubblewrap's arguments."""
    kind, *given = step
    if kind in {"file", "ro-bind-data", "seccomp"}:
        fd = os.memfd_create("outlast")
        os.write(fd, given[0])
        os.lseek(fd, 0, os.SEEK_SET)
        passed.append(fd)
        return [f"--{kind}", str(fd), *given[1:]]
    return [f"--{kind}", *given]


def _make_groups(asked: list[Any]) -> list[str]:
    made: list[str] = []
    pairs: list[tuple[str, dict[str, str]]] = asked
    for path, values in pairs:
        os.makedirs(path, exist_ok=True)
        made.append(path)
        for name, value in values.items():
            if name not in _SWAP or os.path.exists(os.path.join(path, name)):
                _write(os.path.join(path, name), value)
    return made


def _take_lock() -> int:
    fd = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as held:
        raise Failure("something of it still lives") from held
    os.ftruncate(fd, 0)
    return fd


def _listen(name: str) -> _socket.socket:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    if os.path.lexists(name):
        os.unlink(name)
    sock.bind(name)  # relative: the path of a socket may not be long
    os.chmod(name, 0o600)
    sock.listen(_BACKLOG)
    return sock


def _read_frame() -> dict[str, Any]:
    unpacker = Unpacker()
    while True:
        data = os.read(0, 1 << 20)
        unpacker.feed(data)
        asked = unpacker.next()
        if asked is not None:
            return asked
        if not data:
            raise Failure("nothing was asked")


def _start_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def _record(first: int) -> bytes:
    """What proves the end of a box whose parent was killed: its first process, so that no other is taken for it."""
    me = os.getpid()
    parent = f'"pid": {me}, "pid_start": {_start_of(me)}'
    return f'{{{parent}, "first": {first}, "start": {_start_of(first)}, "boot": "{boot_id()}"}}\n'.encode()


def boot_id() -> str:
    """Of this start of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as text:
        return text.read().strip()


def _let_go(fd: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, fd)
    os.close(nothing)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
