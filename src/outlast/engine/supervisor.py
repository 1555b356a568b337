"""The parent of every process tree that must not outlive its lease. A program, run before anything else.

    python -I -S supervisor.py --lock PATH --ttl-s 10 [--grace-s 0] -- command …

Promise: once the lock at PATH is free and its record says `"dead": true`, nothing that the command started is alive.

The supervisor is a child subreaper, so that no descendant can leave its tree, and alone holds the lock, so that no
descendant can keep or drop the proof. It reads deadlines (20 digits, CLOCK_BOOTTIME in ns) from a pipe: the command finds
the pipe's write end in OUTLAST_DEADLINE_FD, or, with `--deadline-fd` and `--parent-pid`, whoever started the supervisor
keeps it. When the pipe ends, the command exits or the deadline passes, it kills all descendants until none is left, says so
in the lock's record and exits, which frees the lock. Until the first deadline comes, `--ttl-s` from its own start counts.

What it cannot see: processes that a daemon outside starts on request (systemd-run, docker, at) and processes put into a
foreign pid namespace (nsenter). If the supervisor itself is killed with SIGKILL, its child dies with it, and so does
whatever asked for the same (PR_SET_PDEATHSIG, a pid namespace by bubblewrap); others may live on, so the lock is then free
without the words `"dead": true` and proves nothing, unless an outer supervisor (`--within`) has died in good order.

Stop signals from a terminal (Ctrl-Z) are ignored in the whole tree: a suspended worker would lose its lease and, continued
later, run for a moment without it. SIGSTOP cannot be ignored; sent to the supervisor itself it suspends the watch.

On macOS there is no subreaper: the command runs in a session of its own, which is killed as a process group together with
the descendants seen just before. That is no proof, and the record says `"dead": "group"`.

It starts with every worker and every attempt, hence: standard library only, nothing slow to import, no package of ours.
"""
# ruff: noqa: PTH - pathlib doubles the start-up time of this program

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

SUPPORTED = "Linux on x86-64 and aarch64; macOS, with process groups only"
UNSUPPORTED = f"outlast cannot supervise processes on {sys.platform}. Supported: {SUPPORTED}."

try:
    import fcntl
except ImportError as error:
    raise ImportError(UNSUPPORTED) from error

EXIT_USAGE = 2
EXIT_UNSUPPORTED = 84
EXIT_LOCK = 85
EXIT_DEADLINE = 86
EXIT_CANNOT_RUN = 126
EXIT_NOT_FOUND = 127

DEADLINE_BYTES = 20
DEADLINE_FD_VARIABLE = "OUTLAST_DEADLINE_FD"
SUPERVISOR_PID_VARIABLE = "OUTLAST_SUPERVISOR_PID"
SUPERVISOR_LOCK_VARIABLE = "OUTLAST_SUPERVISOR_LOCK"

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_STUBBORN_S = 5.0


class SetupFailed(Exception):
    """The command was not started; `code` is what the supervisor exits with."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class Options:
    """The command line."""

    def __init__(self, words: list[str]) -> None:
        if "--" not in words[:-1]:
            raise SetupFailed(EXIT_USAGE, "usage: supervisor --lock PATH --ttl-s SECONDS [--grace-s SECONDS] -- command …")
        split = words.index("--")
        self.argv = words[split + 1 :]
        given = dict(zip(words[:split:2], words[1:split:2], strict=False))
        try:
            self.lock = given.pop("--lock")
            self.ttl_s = float(given.pop("--ttl-s"))
            self.grace_s = float(given.pop("--grace-s", "0"))
            self.deadline_fd = int(given.pop("--deadline-fd", "-1"))
            self.parent_pid = int(given.pop("--parent-pid", "-1"))
            self.within = given.pop("--within", "")
        except (KeyError, ValueError) as bad:
            raise SetupFailed(EXIT_USAGE, f"missing or malformed option: {bad}") from bad
        if given or split % 2:
            raise SetupFailed(EXIT_USAGE, f"unknown option: {' '.join(given) or words[split - 1]}")


class Lock:
    """The lock file: locked before it has its name, so that a free lock at that name always means an end.

    Its content is one JSON object that says who holds it, and at the end whether the tree is dead.
    """

    def __init__(self, path: str, within: str, start: int) -> None:
        self._identity = f'"pid": {os.getpid()}, "start": {start}, "within": "{within}"'
        new = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.new")
        try:
            self.fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._write(f"{{{self._identity}}}\n")
                os.link(new, path)
            finally:
                os.unlink(new)
        except FileExistsError as taken:
            raise SetupFailed(EXIT_LOCK, f"{path} exists: the name of a lock is used once. Choose a fresh one.") from taken
        except OSError as failed:
            raise SetupFailed(EXIT_LOCK, f"the lock {path} cannot be made: {failed.strerror}") from failed

    def settle(self, dead: str, why: str, status: int) -> None:
        """Write down that the tree is dead."""
        self._write(f'{{{self._identity}, "dead": {dead}, "why": "{why}", "status": {status}}}\n')

    def _write(self, text: str) -> None:
        # Never half of each: a writer that dies in between leaves an empty record, which proves nothing.
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, text.encode(), 0)


class Linux:
    """What the kernel offers: subreaper, death signal, signals and the boot clock as descriptors."""

    proof = "true"

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
        if not os.path.exists(f"/proc/{os.getpid()}/stat") or os.readlink("/proc/self") != str(os.getpid()):
            raise SetupFailed(EXIT_UNSUPPORTED, "/proc does not show this process: mount it for this pid namespace")
        self._signals = self._signal_fd((signal.SIGCHLD, *_FORWARDED))
        # CLOCK_BOOTTIME, CLOEXEC | NONBLOCK. A poll's own time-out would not count the time a machine sleeps.
        self._timer = self._check(self._libc.timerfd_create(7, os.O_CLOEXEC | os.O_NONBLOCK))
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._poll.register(self._timer, select.POLLIN)
        self._armed_ns = 0
        self.own_fds = [self._signals, self._timer]

    @staticmethod
    def now_ns() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    @staticmethod
    def start_time() -> int:
        """When this process started, in clock ticks since boot: tells it from a later one with its pid."""
        return int(_stat_fields(os.getpid())[19])

    def listen(self, pipe: int, parent_pid: int) -> None:
        """Let `wait` also end when `pipe` has news or the process `parent_pid` is gone."""
        self._poll.register(pipe, select.POLLIN)
        if parent_pid > 0:
            # A fork of the parent may hold the pipe open for longer than the parent lives.
            try:
                gone = os.pidfd_open(parent_pid)
            except ProcessLookupError:
                return
            self._poll.register(gone, select.POLLIN)
            self.own_fds.append(gone)

    def wait(self, until_ns: int) -> None:
        """Return when there is news, or at `until_ns`."""
        if until_ns != self._armed_ns:
            seconds, nanoseconds = divmod(max(1, until_ns), 1_000_000_000)
            value = (ctypes.c_long * 4)(0, 0, min(seconds, 2**31), nanoseconds)
            self._check(self._libc.timerfd_settime(self._timer, 1, value, None))  # TFD_TIMER_ABSTIME
            self._armed_ns = until_ns
        self._poll.poll()

    def signals(self) -> list[tuple[int, bool]]:
        """The signals that came: number, and whether the terminal sent it (to the whole process group)."""
        came: list[tuple[int, bool]] = []
        while True:
            try:
                info = os.read(self._signals, 128)  # struct signalfd_siginfo: signo at 0, code at 8
            except BlockingIOError:
                return came
            code = int.from_bytes(info[8:12], sys.byteorder, signed=True)
            came.append((int.from_bytes(info[0:4], sys.byteorder), code == 0x80))  # SI_KERNEL

    def become_child(self, parent: int) -> None:
        """In the fork, before the command: die with `parent`, also if that happened just now."""
        self._prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    def kill_tree(self, child: int) -> list[int]:
        """Send SIGKILL to every descendant. Returns those that refused."""
        return [pid for pid in self.descendants(child) if not _kill(pid, signal.SIGKILL)]

    @staticmethod
    def descendants(_child: int) -> list[int]:
        children: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    parent = int(_stat_fields(int(name))[1])
                except OSError:
                    continue
                children.setdefault(parent, []).append(int(name))
        return _below(os.getpid(), children)

    def _signal_fd(self, numbers: tuple[int, ...]) -> int:
        mask = sum(1 << (number - 1) for number in numbers).to_bytes(128, sys.byteorder)
        return self._check(self._libc.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK))

    def _prctl(self, option: int, value: int) -> None:
        zero = ctypes.c_ulong(0)
        self._check(self._libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            reason = os.strerror(ctypes.get_errno())
            raise SetupFailed(EXIT_UNSUPPORTED, f"the kernel refuses what a supervisor needs: {reason}")
        return result


class MacOS:
    """A session and process group of its own, looked at 20 times a second."""

    proof = '"group"'

    def __init__(self) -> None:
        self._pipe = -1
        self._parent_pid = -1
        self.own_fds: list[int] = []

    @staticmethod
    def now_ns() -> int:
        return time.monotonic_ns()

    @staticmethod
    def start_time() -> int:
        return 0

    def listen(self, pipe: int, parent_pid: int) -> None:
        self._pipe = pipe
        self._parent_pid = parent_pid

    def wait(self, until_ns: int) -> None:
        left_s = max(0.0, min(0.05, (until_ns - self.now_ns()) / 1e9))
        select.select([self._pipe] if self._pipe >= 0 else [], [], [], left_s)

    @staticmethod
    def signals() -> list[tuple[int, bool]]:
        came: list[tuple[int, bool]] = [(signal.SIGCHLD, False)]
        for number in signal.sigpending() & set(_FORWARDED):
            signal.sigwait({number})
            came.append((number, False))
        return came

    @staticmethod
    def become_child(_parent: int) -> None:
        os.setsid()

    def kill_tree(self, child: int) -> list[int]:
        below = self.descendants(child)
        try:
            os.killpg(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # only zombies are left in the group, or nothing
        return [pid for pid in below if not _kill(pid, signal.SIGKILL)]

    @staticmethod
    def descendants(child: int) -> list[int]:
        children: dict[int, list[int]] = {}
        with os.popen("ps -axo pid=,ppid=") as listing:
            for line in listing:
                pid, parent = line.split()
                children.setdefault(int(parent), []).append(int(pid))
        return [child, *_below(child, children)]


class Supervisor:
    """One command and everything that it starts, until all of it is gone."""

    def __init__(self, options: Options, machine: Linux | MacOS) -> None:
        self._options = options
        self._machine = machine
        self._old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_FORWARDED})
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, it would lose exit statuses
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        self._deadline_ns = machine.now_ns() + int(options.ttl_s * 1e9)
        self._half_read = b""
        self._status: int | None = None
        self._lock = Lock(options.lock, options.within, machine.start_time())
        self._pipe, writer = (options.deadline_fd, -1) if options.deadline_fd >= 0 else os.pipe()
        os.set_inheritable(self._pipe, False)
        self._child = self._start(writer)
        self._let_go()
        machine.listen(self._pipe, options.parent_pid)

    def run(self) -> int:
        """Watch, then end the tree. Returns the status to exit with."""
        why = self._watch()
        if why == "exit" and self._options.grace_s > 0:
            self._ask_to_end()
        self._end_tree()
        status = os.waitstatus_to_exitcode(self._status) if self._status is not None else -int(signal.SIGKILL)
        status = status if status >= 0 else 128 - status
        if why in ("deadline", "garbage"):
            reason = "no renewal came within the lease" if why == "deadline" else "the deadline pipe holds garbage"
            say(f"{reason}: process {self._child} was killed with everything it started")
            status = EXIT_DEADLINE
        self._lock.settle(self._machine.proof, why, status)
        return status

    def _start(self, writer: int) -> int:
        me = os.getpid()
        child = os.fork()
        if child:
            if writer >= 0:
                os.close(writer)
            return child
        argv = self._options.argv
        code = EXIT_CANNOT_RUN
        try:
            self._machine.become_child(me)
            environment = dict(os.environ)
            if writer >= 0:
                os.set_inheritable(writer, True)
                environment[DEADLINE_FD_VARIABLE] = str(writer)
                environment[SUPERVISOR_PID_VARIABLE] = str(me)
                environment[SUPERVISOR_LOCK_VARIABLE] = os.path.abspath(self._options.lock)
            for changed in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, a command expects them
                signal.signal(changed, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)
            os.execvpe(argv[0], argv, environment)
        except (OSError, SetupFailed) as failed:
            code = EXIT_NOT_FOUND if isinstance(failed, FileNotFoundError) else EXIT_CANNOT_RUN
            say(f"cannot run {argv[0]}: {failed}")
        finally:
            os._exit(code)

    def _let_go(self) -> None:
        """Keep nothing of the command's open but standard error, so that its pipes end when it ends them."""
        keep = {2, self._pipe, self._lock.fd, *self._machine.own_fds}
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        for name in os.listdir("/dev/fd"):
            if int(name) > 2 and int(name) not in keep:
                try:
                    os.close(int(name))
                except OSError:
                    continue  # the descriptor that listed them
        os.chdir("/")

    def _watch(self) -> str:
        while True:
            self._machine.wait(self._deadline_ns)
            for number, from_terminal in self._machine.signals():
                self._take_signal(number, from_terminal=from_terminal)
            if self._status is not None:
                return "exit"
            news = self._read_deadlines()
            if news:
                return news
            if self._machine.now_ns() >= self._deadline_ns:
                return "deadline"

    def _take_signal(self, number: int, *, from_terminal: bool) -> None:
        if number == signal.SIGCHLD:
            self._reap()
            return
        if from_terminal and number in _FROM_KEYBOARD and _group(self._child) == os.getpgrp():
            return  # the terminal has told the command already
        _kill(self._child, number)

    def _read_deadlines(self) -> str:
        """Take the newest deadline, if one came. Returns why the watch is over, or nothing."""
        parent = self._options.parent_pid
        if parent > 0 and os.getppid() != parent:
            return "released"
        if not select.select([self._pipe], [], [], 0)[0]:
            return ""
        read = os.read(self._pipe, 4000)
        if not read:
            return "released"
        self._half_read += read
        whole = len(self._half_read) // DEADLINE_BYTES * DEADLINE_BYTES
        newest = self._half_read[whole - DEADLINE_BYTES : whole]
        self._half_read = self._half_read[whole:]
        if newest.isdigit():
            self._deadline_ns = int(newest)
        return "" if newest.isdigit() or not whole else "garbage"

    def _reap(self) -> bool:
        """Collect the dead. Returns whether no child is left, living or dead."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._child:
                self._status = status

    def _ask_to_end(self) -> None:
        end_ns = min(self._machine.now_ns() + int(self._options.grace_s * 1e9), self._deadline_ns)
        for pid in self._machine.descendants(self._child):
            _kill(pid, signal.SIGTERM)
        while not self._reap() and self._machine.now_ns() < end_ns:
            time.sleep(0.002)

    def _end_tree(self) -> None:
        """Kill and reap until there is no child: orphans come to us, so no child means no descendant."""
        began_ns = self._machine.now_ns()
        pause_s, complained = 0.0005, False
        while True:
            refused = self._machine.kill_tree(self._child)
            if self._reap():
                return
            time.sleep(pause_s)
            if self._reap():
                return
            pause_s = min(pause_s * 2, 0.05)
            if not complained and self._machine.now_ns() - began_ns > _STUBBORN_S * 1e9:
                complained = True
                say(f"processes that will not die hold the lock {self._options.lock} (no permission for: {refused})")


def _stat_fields(pid: int) -> list[bytes]:
    """/proc/PID/stat from the third field on: state, parent, … The second may hold spaces and parentheses."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).rpartition(b")")[2].split()
    except ProcessLookupError as gone:
        raise FileNotFoundError(pid) from gone
    finally:
        os.close(fd)


def _below(root: int, children: dict[int, list[int]]) -> list[int]:
    found: list[int] = []
    rest = [root]
    while rest:
        below = children.get(rest.pop(), [])
        found += below
        rest += below
    return found


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def say(text: str) -> None:
    """One line on standard error, if anybody listens."""
    try:
        os.write(2, f"outlast supervisor: {text}\n".encode())
    except OSError:
        return


def main(words: list[str]) -> int:
    """Run the command line `words`. Returns the exit status."""
    try:
        options = Options(words)
        if sys.platform == "linux":
            return Supervisor(options, Linux()).run()
        if sys.platform == "darwin":
            return Supervisor(options, MacOS()).run()
        raise SetupFailed(EXIT_UNSUPPORTED, UNSUPPORTED)
    except SetupFailed as failed:
        say(str(failed))
        return failed.code


if __name__ == "__main__":
    # Nothing to finalize, and the lock is waited for.
    os._exit(main(sys.argv[1:]))
