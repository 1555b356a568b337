"""The shell that a harness finds in a box: it asks the worker, and is a job's streams, or is bash.

Standard library of Python 3.9 only, and of that what loads in no time; it is copied into the box as it is, behind a
first line that says which Python runs it. What it asks, and what it is told: `outlast.workspaces.boxed.shells`.

* Nobody listens, or the worker does not want it: it becomes the real shell, in this process.
* Else it carries its standard input to the job, the job's output to its own, and ends as the job ends. A signal that
  can be handled goes to the job. Killed, it closes its connection, and the worker ends the job.
* The worker is gone: it waits to be killed with its harness, since what it would say would be believed.
"""

from __future__ import annotations

import _socket
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Sequence
else:
    import _signal

REAL = b"/bin/bash"
PORT = 3129
_AT_ONCE = 65536
_FORWARDED = (1, 2, 3, 10, 12, 15)
_ORPHANED_S = 60.0
_KILLED = 137
_UNREAD = 141


class _Gone(Exception):
    """The worker is."""


class _Asking:
    """The connection to the worker."""

    def __init__(self, sock: _socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()

    def send(self, kind: bytes, data: bytes) -> None:
        try:
            self.sock.sendall(kind + len(data).to_bytes(4, "big") + data)
        except OSError:
            raise _Gone from None

    def receive(self) -> tuple[bytes, bytes]:
        """What came next. Raises `_Gone`."""
        while True:
            if self.ready():
                size = int.from_bytes(self._buffer[1:5], "big")
                kind, data = bytes(self._buffer[:1]), bytes(self._buffer[5 : 5 + size])
                del self._buffer[: 5 + size]
                return kind, data
            self._more()

    def ready(self) -> bool:
        """Whether a whole frame has come already."""
        return len(self._buffer) >= 5 and len(self._buffer) >= 5 + int.from_bytes(self._buffer[1:5], "big")

    def _more(self) -> None:
        try:
            data = self.sock.recv(4 * _AT_ONCE)
        except OSError:
            raise _Gone from None
        if not data:
            raise _Gone
        self._buffer += data


def main() -> int:
    """Be the job, or become the real shell. Returns the job's exit status."""
    words, env = _words(), _environment()
    if any(_is_terminal(fd) for fd in (0, 1, 2)):  # it cannot be carried
        _become_real(words, env)
    asking = _connect()
    if asking is None:
        _become_real(words, env)
        return _KILLED
    try:
        asking.send(b"?", _question(words, env))
        kind, data = asking.receive()
        if kind == b"x":
            asking.sock.close()
            _become_real(words, env)
        return _carry(asking, kind, data)
    except _Gone:
        select.select([], [], [], _ORPHANED_S)
        return _KILLED


def _is_terminal(fd: int) -> bool:
    """Whether it is one, or nothing at all."""
    try:
        os.fstat(fd)
    except OSError:
        return True
    return os.isatty(fd)


def _words() -> Sequence[bytes]:
    """Our arguments, byte for byte."""
    all_words = _read("/proc/self/cmdline").split(b"\0")[:-1]
    count = len(sys.argv) - 1
    return all_words[len(all_words) - count :]


def _environment() -> dict[bytes, bytes]:
    """The environment as it was given: Python may have added to its own."""
    pairs = (one.partition(b"=") for one in _read("/proc/self/environ").split(b"\0") if one)
    env = {name: value for name, _, value in pairs}
    if env.get(b"SHELL") == os.fsencode(sys.argv[0]):
        env[b"SHELL"] = REAL
    return env


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib would double the start-up time
        found = b""
        while piece := file.read(_AT_ONCE):
            found += piece
        return found


def _become_real(words: Sequence[bytes], env: dict[bytes, bytes]) -> None:
    for number in (13, 25):  # SIGPIPE, SIGXFSZ: Python ignores them, and what it ignores would stay so
        _signal.signal(number, _signal.SIG_DFL)
    os.execve(REAL, [REAL, *words], env)  # noqa: S606 - no shell but this one is the point


def _connect() -> _Asking | None:
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        sock.connect(("127.0.0.1", PORT))
    except OSError:
        return None
    return _Asking(sock)


def _question(words: Sequence[bytes], env: dict[bytes, bytes]) -> bytes:
    try:
        one, other = os.fstat(1), os.fstat(2)
        merged = (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
    except OSError:
        merged = False
    pairs = [name + b"=" + value for name, value in env.items()]
    parts = [b"%d" % merged, _cwd(), b"%d" % len(words), *words, *pairs]
    return b"\0".join(parts)


def _cwd() -> bytes:
    return os.getcwdb()  # noqa: PTH109 - pathlib would double the start-up time


def _carry(asking: _Asking, kind: bytes, data: bytes) -> int:
    """Carry until the job ends, from the first frame on; its status."""
    waker, alarm = os.pipe()
    for fd in (waker, alarm):
        os.set_blocking(fd, False)
    _signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for number in _FORWARDED:
        _signal.signal(number, _noted)
    job = _Job(asking)
    job.take(kind, data)
    while not job.ended:
        job.step(waker)
    return job.end()


class _Job:
    """The job that we are, as it is carried."""

    def __init__(self, asking: _Asking) -> None:
        self._asking = asking
        self._told = asking.sock.fileno()
        self._reads = False  # it may be given more
        self._signals: set[int] = set()  # that it got from us
        self._status = -1

    @property
    def ended(self) -> bool:
        return self._status >= 0

    def step(self, waker: int) -> None:
        """Carry what is there, once there is something."""
        fds = [self._told, waker, *([0] if self._reads else [])]
        ready = [self._told] if self._asking.ready() else select.select(fds, [], [])[0]
        if waker in ready:
            self._pass_on(os.read(waker, 64))
        if 0 in ready:
            self._reads = False
            self._asking.send(b"i", _input())
        if self._told in ready:
            self.take(*self._asking.receive())

    def end(self) -> int:
        """Its status; where a signal of ours has ended it we end by that, as the shell would have."""
        number = self._status - 128
        if number in self._signals:
            _signal.signal(number, _signal.SIG_DFL)
            os.kill(os.getpid(), number)
        return self._status

    def _pass_on(self, numbers: bytes) -> None:
        for number in numbers:
            self._signals.add(number)
            self._asking.send(b"!", b"%d" % number)

    def take(self, kind: bytes, data: bytes) -> None:
        """Do as the worker says."""
        if kind == b"s":
            self._status = int(data)
        elif kind == b"i":
            self._reads = True
        else:
            _write(2 if kind == b"e" else 1, data)


def _noted(_number: int, _frame: object) -> None:
    """The wakeup descriptor has it."""


def _input() -> bytes:
    try:
        return os.read(0, _AT_ONCE)
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[_write_some(fd, rest) :]


def _write_some(fd: int, data: memoryview) -> int:
    try:
        return os.write(fd, data)
    except BlockingIOError:
        select.select([], [fd], [])
        return 0
    except OSError:  # nobody reads it any more: a shell would have been ended for that
        os._exit(_UNREAD)


if __name__ == "__main__":
    os._exit(main())
