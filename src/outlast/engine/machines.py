"""What a supervisor needs of the machine, once for Linux and once for macOS. Standard library only."""

# ruff: noqa: PTH110, PTH115, PTH208
# pathlib would double the start-up time of the supervisor.

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

EXIT_UNSUPPORTED = 84

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that the supervisor passes on to its command."""


class SetupError(Exception):
    """The command was not started; `code` is what the supervisor exits with."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class Linux:
    """Subreaper and death signal; signals and the boot clock as descriptors."""

    proof = "true"
    """What a dead tree's record says: no child left means no descendant left."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
        if not os.path.exists("/proc/self") or os.readlink("/proc/self") != str(os.getpid()):
            raise SetupError(
                EXIT_UNSUPPORTED, "/proc is not that of this process: mount it for this namespace"
            )
        self._signals = self._signal_fd((signal.SIGCHLD, *FORWARDED))
        # CLOCK_BOOTTIME: the time-out of a poll would not count the time that a machine sleeps.
        self._timer = self._check(self._libc.timerfd_create(7, os.O_CLOEXEC | os.O_NONBLOCK))
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._poll.register(self._timer, select.POLLIN)
        self._armed_ns = 0
        self._spared: dict[int, bytes] = {}
        self.own_fds = [self._signals, self._timer]

    @staticmethod
    def now_ns() -> int:
        """Nanoseconds since boot, suspension included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    @staticmethod
    def start_time() -> int:
        """When this process started, in clock ticks since boot: tells it from a later one with its pid."""
        return int(stat_fields(os.getpid())[19])

    def listen(self, pipe: int, parent_pid: int) -> None:
        """Let `wait` also end when `pipe` has news or the process `parent_pid` (if not negative) is gone."""
        self._poll.register(pipe, select.POLLIN)
        if parent_pid < 0:
            return
        try:
            # A fork of the parent may hold the pipe open for longer than the parent lives.
            gone = os.pidfd_open(parent_pid)
        except OSError:
            return  # gone already, which the caller sees too; or a kernel before 5.3: the pipe has to do
        self._poll.register(gone, select.POLLIN)
        self.own_fds.append(gone)

    def wait(self, until_ns: int) -> None:
        """Return when there is news, or at `until_ns`."""
        if until_ns != self._armed_ns:
            seconds, nanoseconds = divmod(max(1, until_ns), 1_000_000_000)
            value = (ctypes.c_long * 4)(0, 0, min(seconds, 2**31 - 1), nanoseconds)
            self._check(self._libc.timerfd_settime(self._timer, 1, value, None))  # TFD_TIMER_ABSTIME
            self._armed_ns = until_ns
        self._poll.poll()

    def signals(self) -> list[tuple[int, bool]]:
        """The signals that came: number, and whether the terminal sent it (to the whole process group)."""
        came: list[tuple[int, bool]] = []
        while True:
            try:
                info = os.read(self._signals, 128)  # struct signalfd_siginfo: number at 0, code at 8
            except BlockingIOError:
                return came
            code = int.from_bytes(info[8:12], sys.byteorder, signed=True)
            came.append((int.from_bytes(info[0:4], sys.byteorder), code == 0x80))  # SI_KERNEL

    def become_child(self, parent: int) -> None:
        """In the fork, before the command: die with `parent`, also if that happened just now."""
        self._prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    def spare(self, pid: int) -> None:
        """Count this descendant, and what is below it, to the tree no more. Nothing happens where it is gone."""
        try:
            self._spared[pid] = stat_fields(pid)[19]
        except OSError:
            return

    def has_only_spared(self) -> bool:
        """Every child that is left is one that is spared."""
        return bool(self._spared) and not self._children().get(os.getpid())

    def kill_tree(self, child: int) -> list[int]:
        """Send SIGKILL to every descendant. Returns those that may not be killed."""
        return [pid for pid in self.descendants(child) if not send(pid, signal.SIGKILL)]

    def descendants(self, _child: int) -> list[int]:
        """Every process below this one that is not spared: nothing leaves the tree of a subreaper."""
        return _below(os.getpid(), self._children())

    def _children(self) -> dict[int, list[int]]:
        """The children of each process, without those that are spared."""
        children: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    fields = stat_fields(int(name))
                except OSError:
                    continue  # it died meanwhile
                if self._spared.get(int(name)) != fields[19]:
                    children.setdefault(int(fields[1]), []).append(int(name))
        return children

    def _signal_fd(self, numbers: tuple[int, ...]) -> int:
        # On big-endian machines a sigset_t is an array of words; those are not supported.
        mask = sum(1 << (number - 1) for number in numbers).to_bytes(128, "little")
        return self._check(self._libc.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK))

    def _prctl(self, option: int, value: int) -> None:
        zero = ctypes.c_ulong(0)
        self._check(self._libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            reason = os.strerror(ctypes.get_errno())
            raise SetupError(EXIT_UNSUPPORTED, f"the kernel refuses what a supervisor needs: {reason}")
        return result


class MacOS:
    """A session and process group of its own for the command, looked at 20 times a second."""

    proof = '"group"'
    """No proof: what put itself into another session before its parent died was not seen."""

    def __init__(self) -> None:
        self._pipe = -1
        self.own_fds: list[int] = []

    @staticmethod
    def now_ns() -> int:
        """Nanoseconds of the clock that `outlast.clock` counts deadlines by on this platform."""
        return time.monotonic_ns()

    @staticmethod
    def start_time() -> int:
        """Not needed: nobody waits for a pid here."""
        return 0

    def spare(self, _pid: int) -> None:
        """Nothing outlives a worker here: there are no sandboxes that could."""

    @staticmethod
    def has_only_spared() -> bool:
        """Nothing is spared."""
        return False

    def listen(self, pipe: int, _parent_pid: int) -> None:
        """Let `wait` also end when `pipe` has news."""
        self._pipe = pipe

    def wait(self, until_ns: int) -> None:
        """Return when there may be news, or at `until_ns`."""
        left_s = max(0.0, min(0.05, (until_ns - self.now_ns()) / 1e9))
        waiting = select.poll()  # not `select.select`, which fails for the thousandth descriptor of a worker
        waiting.register(self._pipe, select.POLLIN)
        waiting.poll(left_s * 1000)

    @staticmethod
    def signals() -> list[tuple[int, bool]]:
        """The signals that came. The terminal's do not reach the command, which is in another session."""
        came: list[tuple[int, bool]] = [(signal.SIGCHLD, False)]
        for number in signal.sigpending() & set(FORWARDED):
            signal.sigwait({number})
            came.append((number, False))
        return came

    @staticmethod
    def become_child(_parent: int) -> None:
        """In the fork, before the command."""
        os.setsid()

    def kill_tree(self, child: int) -> list[int]:
        """Send SIGKILL to the group and to every descendant seen. Returns those that may not be killed."""
        below = self.descendants(child)
        try:
            os.killpg(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            below = [*below]  # nothing but zombies in the group: the descendants seen remain
        return [pid for pid in below if not send(pid, signal.SIGKILL)]

    @staticmethod
    def descendants(child: int) -> list[int]:
        """The processes below `child` whose ancestors are alive."""
        children: dict[int, list[int]] = {}
        # A fixed text; the subprocess module would cost Linux too a third of the start-up time.
        with os.popen("ps -axo pid=,ppid=") as listing:  # noqa: S605  # pyright: ignore[reportDeprecated]
            for line in listing:
                pid, parent = line.split()
                children.setdefault(int(parent), []).append(int(pid))
        return _below(child, children)


def stat_fields(pid: int) -> list[bytes]:
    """/proc/PID/stat from its third field on: state, parent, … (the second may hold spaces and parentheses).

    Raises:
        OSError: there is no such process.
    """
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).rpartition(b")")[2].split()
    finally:
        os.close(fd)


def send(pid: int, number: int) -> bool:
    """Send a signal. Returns False if that is not permitted; a process that is gone has it in effect."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _below(root: int, children: dict[int, list[int]]) -> list[int]:
    found: list[int] = []
    rest = [root]
    while rest:
        below = children.get(rest.pop(), [])
        found += below
        rest += below
    return found
