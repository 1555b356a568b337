"""Process trees: how one is begun so that nothing leaves it, found, and ended.

A job has a *keeper*: a fork of the supervisor that is a child subreaper, begins the command, and exits when nothing of
the tree is left, with the command's status. So the tree of a job is what descends from its keeper. If a job kills its
own keeper, what is left comes to the supervisor (the first process of the namespace), which kills every child that is
no keeper.
"""

# ruff: noqa: PTH208
# pathlib would double the start-up time.

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIGKILL = 9
SIGCONT = 18
_SET_DEATH_SIGNAL = 1
_SET_DUMPABLE = 4
_SET_SUBREAPER = 36
_IGNORED = 1  # SIG_IGN
_DEFAULT = 0  # SIG_DFL
_SIGNALS = [number for number in range(1, 32) if number not in {9, 17, 19}]
_NOFILE = 7
_UNKNOWN = 126
_ABSENT = 127

_libc = ctypes.CDLL(None, use_errno=True)
_libc.signal.restype = ctypes.c_void_p
_libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
_files: list[int] = []
"""How many descriptors a job may have: soft and hard. Empty: as this process."""


def become_supervisor() -> None:
    """Adopt orphans, ignore what others send, and let nobody of the same user look into this process.

    It may have as many descriptors as the machine allows: some for each job whose output is kept. Jobs have so many as
    were allowed before.
    """
    _files[:] = _limits_of(_NOFILE)
    _set_limits(_NOFILE, _files[1], _files[1])
    _prctl(_SET_SUBREAPER, 1)
    # Not dumpable: no tracing, no reading of memory, environment or descriptors by the jobs, which have the same uid.
    _prctl(_SET_DUMPABLE, 0)
    ignore_signals()


def ignore_signals() -> None:
    """Ignore all that can be ignored, but the end of children."""
    for number in _SIGNALS:
        _libc.signal(number, _IGNORED)


class Start:
    """What a command is to be begun with."""

    def __init__(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], limits: Mapping[str, int]
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.limits = limits


def begin(start: Start, stdio: tuple[int, int, int], failed: int, said: int) -> int:
    """Begin a command under a keeper of its own. Returns the keeper's pid.

    `stdio` is what the command gets; what cannot be begun is written to the descriptor `failed`, which else ends empty;
    the command's status to `said`, whatever of its tree lives on.

    Raises:
        OSError: there can be no more processes.
    """
    keeper = os.fork()
    if keeper == 0:
        status = _UNKNOWN
        try:
            status = _keep(start, stdio, failed, said)
        finally:
            os._exit(status)
    return keeper


def _keep(start: Start, stdio: tuple[int, int, int], failed: int, said: int) -> int:
    _prctl(_SET_DEATH_SIGNAL, SIGKILL)
    _prctl(_SET_SUBREAPER, 1)
    try:
        command = os.fork()
    except OSError as full:
        os.write(failed, f"{full.strerror}".encode())
        return _UNKNOWN
    if command == 0:
        try:
            _become(start, stdio, failed)
        except (OSError, ValueError) as wrong:
            os.write(failed, _why(start, wrong).encode())
            os._exit(_ABSENT if isinstance(wrong, FileNotFoundError) else _UNKNOWN)
        finally:
            os._exit(_UNKNOWN)
    ignore_signals()
    _close_all_but((said,))
    status = 0
    while True:
        try:
            pid, ended = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == command:
            status = status_of(ended)
            os.write(said, b"%d" % status)
            os.close(said)


def _why(start: Start, wrong: Exception) -> str:
    reason = getattr(wrong, "strerror", None) or str(wrong)
    if isinstance(wrong, OSError) and wrong.filename == start.cwd:
        return f"its directory {start.cwd}: {reason}"
    return f"{start.argv[0]}: {reason}"


def _become(start: Start, stdio: tuple[int, int, int], failed: int) -> None:
    os.setsid()
    for number in _SIGNALS:
        _libc.signal(number, _DEFAULT)
    for target, fd in enumerate(stdio):
        os.dup2(fd, target)
    _limit(start.limits)
    os.chdir(start.cwd)
    # Nothing of the supervisor is held any more: others of this user may look.
    _close_all_but((0, 1, 2, failed))
    if _files:
        _set_limits(_NOFILE, *_files)  # not before: descriptors beyond it could not be listed
    _prctl(_SET_DUMPABLE, 1)
    # A machine without memory ends a job, not the supervisor.
    _write_quietly("/proc/self/oom_score_adj", b"500")
    os.execvpe(start.argv[0], list(start.argv), dict(start.env))  # noqa: S606 - no shell is the point


def _limit(limits: Mapping[str, int]) -> None:
    """Limits of the process, where the machine gives the box none of its own: `setrlimit`, affinity."""
    for resource, name in ((6, "processes"), (2, "memory_bytes")):  # RLIMIT_NPROC, RLIMIT_DATA
        if name in limits:
            most = min(limits[name], _limits_of(resource)[1])
            _set_limits(resource, most, most)
    if "cpus" in limits:
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, mine[: max(1, limits["cpus"])])


def _limits_of(resource: int) -> tuple[int, int]:
    pair = (ctypes.c_ulong * 2)()
    _check(_libc.getrlimit(resource, pair))
    return pair[0], pair[1]


def _set_limits(resource: int, soft: int, hard: int) -> None:
    _check(_libc.setrlimit(resource, (ctypes.c_ulong * 2)(soft, hard)))


def descendants(of: int) -> list[int]:
    """Every process below `of`, without it."""
    found: list[int] = []
    rest = [of]
    below = _children()
    while rest:
        next_ones = below.get(rest.pop(), [])
        found += next_ones
        rest += next_ones
    return found


class Dead:
    """Collects our dead children, whoever they are, and remembers how each ended until somebody asks."""

    def __init__(self) -> None:
        self._ended: dict[int, int] = {}

    def collect(self) -> None:
        while True:
            try:
                pid, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended[pid] = status_of(ended)

    def take(self, pid: int) -> int:
        """The exit status of one that has ended."""
        self.collect()
        return self._ended.pop(pid, _UNKNOWN)

    def forget_but(self, pids: set[int]) -> None:
        """Nobody will ask for any but these."""
        self._ended = {pid: status for pid, status in self._ended.items() if pid in pids}


def children() -> list[int]:
    """Our own, alive."""
    return _children().get(os.getpid(), [])


def send(pids: Sequence[int], number: int) -> None:
    """A signal to each that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:  # noqa: PERF203 - one that is gone must not keep the signal from the others
            continue


def status_of(ended: int) -> int:
    """What `waitpid` said as an exit status: 128 + n where signal n ended it."""
    return 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            except OSError:
                continue  # it died meanwhile
            if len(fields) > 1 and fields[0] != b"Z":
                found.setdefault(int(fields[1]), []).append(int(name))
    return found


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _write_quietly(path: str, data: bytes) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, data)
    except OSError:
        return  # not permitted here: then all are equal to the kernel
    finally:
        os.close(fd)


def _close_all_but(kept: Sequence[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor that listed them


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
