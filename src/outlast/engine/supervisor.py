"""The parent of every process tree that must not outlive its lease. A program: see `supervise.py`.

    supervise.py --lock PATH --ttl-s 10 [--grace-s 0] -- command …

Promise: once the lock at PATH is free and its record says `"dead": true`, nothing that the command started
is alive, but what it asked to be spared.

The supervisor is a child subreaper, so that no descendant can leave its tree, and alone holds the lock, so
that no descendant can keep or drop the proof. It reads deadlines (20 digits, CLOCK_BOOTTIME in nanoseconds)
from a pipe: the command finds the pipe's write end in OUTLAST_DEADLINE_FD; or, with `--deadline-fd` and
`--parent-pid`, whoever starts the supervisor keeps it. When the pipe ends, the command exits or the
deadline passes, the supervisor kills all descendants until none is left, says so in the lock's record and
exits, which frees the lock. A message `+` and 19 digits of a pid asks that this descendant, and what is below it,
be spared: a sandbox that outlives its worker, whose end has a proof of its own. Nobody but the holder of the pipe
can ask it. Until the first deadline comes, `--ttl-s` from its own start counts. With
`--grace-s`, what a command that ended by itself left behind gets SIGTERM and that much time first.

Exit status: that of the command, 128 + n if signal n ended it, 86 if the deadline did, 126 or 127 if it
could not be run, 85 if the lock could not be had, 84 if the platform lacks something, 2 for a wrong command
line.

What it cannot see: processes that a daemon outside starts on request (systemd-run, docker, at) and
processes put into a foreign pid namespace (nsenter). If the supervisor itself is killed with SIGKILL, its
child dies with it, and so does what asked for the same (PR_SET_PDEATHSIG, bubblewrap's pid namespace).
Others may live on; the lock is then free without the words `"dead": true` and proves nothing, unless the
supervisor around it (`--within`) ended in good order.

Stop signals from a terminal (Ctrl-Z) are ignored in the whole tree: a suspended worker would lose its lease
and, continued later, run for a moment without it. SIGSTOP cannot be ignored; sent to the supervisor itself,
it suspends the watch.

On macOS there is no subreaper: the command runs in a session of its own, which is killed as a process group
together with the descendants seen just before. That is no proof, and the record says `"dead": "group"`.

It starts before every worker and every attempt, hence: standard library only, and nothing that is slow to
import.
"""

# ruff: noqa: PTH100, PTH108, PTH118, PTH119, PTH120, PTH208
# pathlib would double the start-up time.

from __future__ import annotations

import os
import select
import signal
import sys
import time

from outlast.engine.machines import EXIT_UNSUPPORTED, FORWARDED, Linux, MacOS, SetupError, send

SUPPORTED = "Linux on x86-64 and aarch64; macOS, by process groups"
UNSUPPORTED = f"outlast cannot supervise processes on {sys.platform}. Supported: {SUPPORTED}."
USAGE = "usage: supervise.py --lock PATH --ttl-s SECONDS [--grace-s SECONDS] -- command …"

try:
    import fcntl
except ImportError as error:
    raise ImportError(UNSUPPORTED) from error

EXIT_USAGE = 2
EXIT_LOCK = 85
ROOM = "Give this user room and access there, or set OUTLAST_DATA_DIR to another directory."
EXIT_DEADLINE = 86
EXIT_CANNOT_RUN = 126
EXIT_NOT_FOUND = 127

DEADLINE_BYTES = 20
SPARE = b"+"
DEADLINE_FD_VARIABLE = "OUTLAST_DEADLINE_FD"
SUPERVISOR_PID_VARIABLE = "OUTLAST_SUPERVISOR_PID"
SUPERVISOR_LOCK_VARIABLE = "OUTLAST_SUPERVISOR_LOCK"

_FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_STUBBORN_NS = 5_000_000_000


class Options:
    """The command line."""

    def __init__(self, words: list[str]) -> None:
        split = words.index("--") if "--" in words[:-1] else 0
        if not split or split % 2:
            raise SetupError(EXIT_USAGE, USAGE)
        self.argv = words[split + 1 :]
        given = dict(zip(words[:split:2], words[1:split:2], strict=True))
        try:
            self.lock = os.path.abspath(given.pop("--lock"))
            self.ttl_s = float(given.pop("--ttl-s"))
            self.grace_s = float(given.pop("--grace-s", "0"))
            self.deadline_fd = int(given.pop("--deadline-fd", "-1"))
            self.parent_pid = int(given.pop("--parent-pid", "-1"))
            self.within = given.pop("--within", "")
        except (KeyError, ValueError) as bad:
            raise SetupError(EXIT_USAGE, f"missing or malformed option: {bad}. {USAGE}") from bad
        if given:
            raise SetupError(EXIT_USAGE, f"unknown option: {' '.join(given)}. {USAGE}")


class LockFile:
    """The lock, taken before it gets its name, so that a free lock at that name always means an end.

    Its content is one JSON object: who holds it and, at the end, whether the tree is dead. Only the holder
    writes it.
    """

    def __init__(self, path: str, within: str, start: int) -> None:
        self._identity = f'"pid": {os.getpid()}, "start": {start}, "within": "{within}"'
        name = os.path.basename(path)
        if not all(part.isascii() and part.replace("-", "").replace("_", "").replace(".", "").isalnum()
                   for part in (name, within or "x")):  # fmt: skip
            raise SetupError(
                EXIT_USAGE, f"{name!r} is no name for a lock: use letters, digits, '.', '_' and '-'."
            )
        new = os.path.join(os.path.dirname(path), f".{name}.{os.getpid()}-{start}.new")
        try:
            self.fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._write(f"{{{self._identity}}}\n")
                os.link(new, path)
            finally:
                os.unlink(new)
        except FileExistsError as taken:
            text = f"{path} exists, and the name of a lock is used only once. Choose a fresh one."
            raise SetupError(EXIT_LOCK, text) from taken
        except OSError as failed:
            raise SetupError(
                EXIT_LOCK, f"the lock {path} cannot be made: {failed.strerror}. {ROOM}"
            ) from failed

    def settle(self, dead: str, why: str, status: int) -> None:
        """Write down that the tree is dead."""
        try:
            self._write(f'{{{self._identity}, "dead": {dead}, "why": "{why}", "status": {status}}}\n')
        except OSError as failed:
            say(f"the end of the tree could not be written down, so nobody can prove it: {failed.strerror}")

    def _write(self, text: str) -> None:
        # Emptied first: a writer that dies in between leaves nothing, which proves nothing.
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, text.encode(), 0)


class Supervisor:
    """One command and everything that it starts, until all of it is gone."""

    def __init__(self, options: Options, machine: Linux | MacOS) -> None:
        self._options = options
        self._machine = machine
        self._old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *FORWARDED})
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, it would lose exit statuses
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        self._deadline_ns = machine.now_ns() + int(options.ttl_s * 1e9)
        self._half_read = b""
        self._status: int | None = None
        self._lock = LockFile(options.lock, options.within, machine.start_time())
        self._pipe, writer = (options.deadline_fd, -1) if options.deadline_fd >= 0 else os.pipe()
        os.set_inheritable(self._pipe, False)  # noqa: FBT003 - the library's own signature
        self._child = self._fork(writer)
        self._let_go(writer)
        machine.listen(self._pipe, options.parent_pid)

    def run(self) -> int:
        """Watch, then end the tree. Returns the status to exit with."""
        why = self._watch()
        self._read_messages()  # what it said last may have come after its death was seen
        if self._options.grace_s > 0 and self._ended_by_itself(why):
            self._ask_to_end()
        self._end_tree()
        status = 128 + signal.SIGKILL if self._status is None else os.waitstatus_to_exitcode(self._status)
        if status < 0:
            status = 128 - status
        if why in {"deadline", "garbage"}:
            reason = "no renewal within the lease" if why == "deadline" else "garbage in the deadline pipe"
            say(f"{reason}: process {self._child} was killed, with everything that it started")
            status = EXIT_DEADLINE
        self._lock.settle(self._machine.proof, why, status)
        return status

    def _fork(self, writer: int) -> int:
        me = os.getpid()
        child = os.fork()
        if child == 0:
            try:
                self._machine.become_child(me)
                self._become_command(me, writer)
            except (OSError, ValueError, SetupError) as failed:
                say(f"cannot run {self._options.argv[0]}: {failed}")
                os._exit(EXIT_NOT_FOUND if isinstance(failed, FileNotFoundError) else EXIT_CANNOT_RUN)
            finally:
                os._exit(EXIT_CANNOT_RUN)
        return child

    def _become_command(self, supervisor: int, writer: int) -> None:
        environment = dict(os.environ)
        if writer >= 0:
            os.set_inheritable(writer, True)  # noqa: FBT003 - the library's own signature
            environment[DEADLINE_FD_VARIABLE] = str(writer)
            environment[SUPERVISOR_PID_VARIABLE] = str(supervisor)
            environment[SUPERVISOR_LOCK_VARIABLE] = self._options.lock
        for number in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
        ):  # Python ignores these, a command does not expect that
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)
        os.execvpe(self._options.argv[0], self._options.argv, environment)  # noqa: S606 - no shell is the point

    def _let_go(self, writer: int) -> None:
        """Keep nothing of the command's open but standard error: its pipes end when it ends them."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        if writer >= 0:
            os.close(writer)
        keep = {2, self._pipe, self._lock.fd, *self._machine.own_fds}
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, 1):
            os.dup2(nothing, fd)
        for name in os.listdir("/dev/fd"):
            if int(name) > 2 and int(name) not in keep:
                try:
                    os.close(int(name))
                except OSError:
                    continue  # the descriptor that listed them
        os.chdir("/")

    def _watch(self) -> str:
        """Return why it is over: `exit`, `released`, `deadline` or `garbage`."""
        while True:
            for number, from_terminal in self._machine.signals():
                self._take_signal(number, from_terminal=from_terminal)
            if self._status is not None:
                return "exit"
            over = self._read_deadlines()
            if over:
                return over
            if self._machine.now_ns() >= self._deadline_ns:
                return "deadline"
            self._machine.wait(self._deadline_ns)

    def _take_signal(self, number: int, *, from_terminal: bool) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif not (from_terminal and number in _FROM_KEYBOARD and _group(self._child) == os.getpgrp()):
            # Otherwise the terminal has told the command already.
            send(self._child, number)

    def _read_deadlines(self) -> str:
        """Take the newest deadline, if one came. Returns why the watch is over, or nothing."""
        if self._options.parent_pid >= 0 and os.getppid() != self._options.parent_pid:
            return "released"
        if not _has_news(self._pipe):
            return ""
        return self._read_messages()

    def _read_messages(self) -> str:
        """Take what the pipe holds now. Returns why the watch is over, or nothing."""
        while _has_news(self._pipe):
            read = os.read(self._pipe, 4000)
            if not read:
                return "released"
            self._half_read += read
            while len(self._half_read) >= DEADLINE_BYTES:
                message, self._half_read = self._half_read[:DEADLINE_BYTES], self._half_read[DEADLINE_BYTES:]
                if message[:1] == SPARE and message[1:].isdigit():
                    self._machine.spare(int(message[1:]))
                elif message.isdigit():
                    self._deadline_ns = int(message)
                else:
                    return "garbage"
        return ""

    def _reap(self) -> bool:
        """Collect the dead. Returns whether no child is left, living or dead, but those that are spared."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return self._machine.has_only_spared()
            if pid == self._child:
                self._status = status

    def _ended_by_itself(self, why: str) -> bool:
        # A process that exits closes its files first: give its exit the moment to follow the end of the pipe.
        end_ns = self._machine.now_ns() + 20_000_000
        while why == "released" and self._options.deadline_fd < 0 and self._machine.now_ns() < end_ns:
            self._reap()
            if self._status is not None:
                return True
            time.sleep(0.0005)
        return why == "exit"

    def _ask_to_end(self) -> None:
        end_ns = min(self._machine.now_ns() + int(self._options.grace_s * 1e9), self._deadline_ns)
        for pid in self._machine.descendants(self._child):
            send(pid, signal.SIGTERM)
        while not self._reap() and self._machine.now_ns() < end_ns:
            time.sleep(0.002)

    def _end_tree(self) -> None:
        """Kill and reap until there is no child: orphans come to us, so no child means no descendant."""
        if self._status is None:
            send(self._child, signal.SIGKILL)
        complain_ns = self._machine.now_ns() + _STUBBORN_NS
        pause_s, longest_s = 0.0005, 0.005  # short: one that forks and exits all the time has to be caught
        while not self._reap():
            refused = self._machine.kill_tree(self._child)
            if self._reap():
                return
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, longest_s)
            if self._machine.now_ns() > complain_ns:
                complain_ns += 60 * _STUBBORN_NS
                longest_s = 0.1
                say(f"processes that do not die hold {self._options.lock} (no permission to kill: {refused})")


def _has_news(pipe: int) -> bool:
    waiting = select.poll()  # not `select.select`, which fails for the thousandth descriptor of a worker
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(0))


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
        match sys.platform:
            case "linux":
                return Supervisor(options, Linux()).run()
            case "darwin":
                return Supervisor(options, MacOS()).run()
            case _:
                say(UNSUPPORTED)
                return EXIT_UNSUPPORTED
    except SetupError as failed:
        say(str(failed))
        return failed.code


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
