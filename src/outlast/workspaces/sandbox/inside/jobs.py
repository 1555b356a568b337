"""The jobs of a box: begun once for each name, their output kept, their trees ended."""

# ruff: noqa: PTH118
# pathlib would double the start-up time.

from __future__ import annotations

import errno
import os

from outlast.workspaces.sandbox.inside import trees
from outlast.workspaces.sandbox.inside.kept import Kept
from outlast.workspaces.sandbox.inside.loop import GONE, READ, WRITE, Loop, now_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from outlast.workspaces.sandbox.inside.trees import Start

TIMED_OUT = 124
_AT_ONCE = 256 * 1024
_KILL_AGAIN_S = 0.01
_KEPT_JOBS = 200
"""So many that have ended have their output kept, and its descriptors; then the oldest is dropped for a new one."""
_AHEAD = 8 * 1024 * 1024  # bytes that a paced job may be ahead of its reader
_DRAINED = 8  # pieces: more than a pipe holds


class Refusal(Exception):
    """What was asked is refused: `kind` is for programs, the text for readers."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class Plan:
    """A job as it was asked for."""

    merged = False
    paced = False

    def __init__(self, name: str, start: Start, *, tied: bool, stdin: bool, timeout_s: float) -> None:
        self.name = name
        self.start = start
        self.tied = tied
        self.stdin = stdin
        self.timeout_s = timeout_s


class Job:
    """One process tree."""

    def __init__(self, plan: Plan, around: Jobs, where: str, cap: int) -> None:
        self.name = plan.name
        self.tied = plan.tied
        self.status: int | None = None
        self.failed = ""  # why it was never begun
        self.begun = False
        self.stdin_at = 0
        # How the command itself ended, and how much the job had written by then: its tree may go on.
        self.left: dict[str, object] | None = None
        self.waiting: list[Callable[[], bool]] = []  # each says whether it is done with
        self._loop = around.loop
        self._dead = around.dead
        self._on_end = around.end
        self._kept = {name: Kept(f"{where}.{name}", cap, around.make_room) for name in ("stdout", "stderr")}
        self._sources: dict[str, int] = {}
        self._paced = plan.paced
        self._asked = {"stdout": 0, "stderr": 0}
        self._held: set[str] = set()  # streams that are not read now
        self._stdin = -1
        self._unwritten = bytearray()
        self.unwanted = False
        self._closing = False
        self._killing = False
        self._verdict: int | None = None
        self._timed = plan.timeout_s > 0
        self._over_time = False
        self._begin(plan)

    def _begin(self, plan: Plan) -> None:
        made: list[int] = []
        try:
            _open_streams(made, stdin=plan.stdin)
            out, out_w, err, err_w, failed, failed_w, said, said_w, source, self._stdin = made
            stdio = (source, out_w, out_w if plan.merged else err_w)
            self.keeper = trees.begin(plan.start, stdio, failed_w, said_w)
        except OSError as full:
            for fd in filter(_is_open, made):
                os.close(fd)
            kind = "full" if full.errno in {errno.EMFILE, errno.ENFILE} else "refused"
            raise Refusal(kind, f"no process can be started in it: {full.strerror}") from full
        for fd in (source, out_w, err_w, failed_w, said_w):
            os.close(fd)
        self._pidfd = os.pidfd_open(self.keeper)  # there is room for it: others were closed just now
        self._loop.watch(self._pidfd, READ, lambda _events: self._keeper_gone())
        self._loop.watch(failed, READ, lambda _events: self._settle_begin(failed))
        self._loop.watch(said, READ, lambda _events: self._command_gone(said))
        for name, fd in (("stdout", out), ("stderr", err)):
            os.set_blocking(fd, False)
            self._sources[name] = fd
            self._loop.watch(fd, READ, lambda _events, name=name: self._take(name))
        if self._stdin >= 0:
            os.set_blocking(self._stdin, False)
        if plan.timeout_s > 0:
            self._loop.at(now_s() + plan.timeout_s, self._time_out)

    @property
    def ended(self) -> bool:
        """Nothing of it is left, and all that it wrote is kept."""
        return self.status is not None

    @property
    def dying(self) -> bool:
        """It is being killed."""
        return self._killing and not self.ended

    def read(self, stream: str, offset: int, most: int) -> tuple[int, bytes]:
        """What is kept of a stream from `offset` on."""
        self._asked[stream] = offset
        if stream in self._held and self._kept[stream].end - offset <= _AHEAD // 2:
            self._go_on(stream)
        return self._kept[stream].read(offset, most)

    def changed(self) -> None:
        """Tell who waits for it."""
        self.waiting = [one for one in self.waiting if not one()]

    def give(self, at: int, data: bytes) -> None:
        """Let it read `data`, byte `at` of its standard input and on; what it was given before is left out."""
        if self._stdin < 0 or self._closing or self.ended:
            raise Refusal("refused", f"the job {self.name} reads nothing more")
        if at > self.stdin_at:
            raise Refusal("refused", f"byte {self.stdin_at} of the input of {self.name} is next, not {at}")
        self._unwritten += data[self.stdin_at - at :]
        self.stdin_at = max(self.stdin_at, at + len(data))
        self._put()

    def given(self) -> bool:
        """All that it was given is on its way to it."""
        if self._unwritten and (self._stdin < 0 or self.ended):
            raise Refusal("refused", f"the job {self.name} reads nothing more")
        return not self._unwritten

    def close_stdin(self) -> None:
        """It reads an end, after what it was given."""
        self._closing = True
        self._put()

    def signal(self, number: int) -> None:
        """To the whole tree."""
        if not self.ended:
            trees.send(trees.descendants(self.keeper), number)

    def kill(self) -> None:
        """Kill the tree; `changed` tells when it has ended."""
        if not self._killing and not self.ended:
            self._killing = True
            self._kill_on()

    def forget(self) -> bool:
        """Keep nothing of what it wrote. Whether there was anything."""
        dropped = [kept.close() for kept in self._kept.values()]
        return any(dropped)

    def _kill_on(self) -> None:
        if self.ended:
            return
        trees.send(trees.descendants(self.keeper), trees.SIGKILL)
        trees.send([self.keeper], trees.SIGCONT)  # it may have stopped its keeper
        self._loop.at(now_s() + _KILL_AGAIN_S, self._kill_on)  # one that forks all the time has to be caught

    def tie(self) -> None:
        """It dies with its holder, and not by its time."""
        self.tied = True
        self._timed = False
        self.hurry()

    def hurry(self) -> None:
        """Nobody reads it as it comes: it is not held up for that any more."""
        self._paced = False
        for name in list(self._held):
            self._go_on(name)

    def _go_on(self, name: str) -> None:
        self._held.discard(name)
        if name in self._sources:
            self._loop.watch(self._sources[name], READ, lambda _events: self._take(name))

    def _time_out(self) -> None:
        if self._timed and not self.ended:
            self._verdict, self._over_time = TIMED_OUT, True
            self.kill()

    def _settle_begin(self, fd: int) -> None:
        self.failed = os.read(fd, 4096).decode("utf-8", "replace")
        self._loop.forget(fd)
        os.close(fd)
        self.begun = not self.failed
        self.changed()

    def _command_gone(self, fd: int) -> None:
        status = os.read(fd, 16)
        self._loop.forget(fd)
        os.close(fd)
        if status:  # else its keeper was killed: the end of the job says more
            self._note_left(int(status))
            self.changed()

    def _note_left(self, status: int) -> None:
        if self.left is not None:
            return
        for name in list(self._sources):
            for _ in range(_DRAINED):  # what it left running may write all the time
                if not self._take(name):
                    break
        ends = {name: kept.end for name, kept in self._kept.items()}
        known = status if self._verdict is None else self._verdict
        self.left = {"status": known, "timed_out": int(self._over_time), **ends}

    def _take(self, name: str) -> bool:
        """Keep what is there to read. Returns False at the end of the stream, or where there is nothing now."""
        fd = self._sources.get(name, -1)
        if fd < 0:
            return False
        try:
            data = os.read(fd, _AT_ONCE)
        except BlockingIOError:
            return False
        if data:
            self._kept[name].append(data)
            if self._paced and name not in self._held and self._kept[name].end - self._asked[name] > _AHEAD:
                self._held.add(name)
                self._loop.forget(fd)
        else:
            self._loop.forget(fd)
            os.close(self._sources.pop(name))
        self.changed()
        return bool(data)

    def _put(self) -> None:
        fd = self._stdin
        if fd < 0:
            return
        try:
            while self._unwritten:
                del self._unwritten[: os.write(fd, self._unwritten[:_AT_ONCE])]
        except BlockingIOError:
            self._loop.watch(fd, WRITE, self._writable)
            return
        except OSError:
            self._let_go()  # it has closed its end: `given` says so
            return
        self._loop.forget(fd)
        if self._closing:
            self._let_go()

    def _writable(self, events: int) -> None:
        if events & GONE:
            self._let_go()
        else:
            self._put()
        self.changed()

    def _let_go(self) -> None:
        if self._stdin >= 0:
            self._loop.forget(self._stdin)
            os.close(self._stdin)
            self._stdin = -1

    def _keeper_gone(self) -> None:
        self._loop.forget(self._pidfd)
        os.close(self._pidfd)
        status = self._dead.take(self.keeper)
        if self._verdict is None:
            self._verdict = status
        self._on_end(self)

    def settle(self) -> None:
        """Its tree is gone: keep what is still in its pipes, and say so."""
        for name in list(self._sources):
            while self._take(name):
                pass
            if name in self._sources:  # something of another job holds the other end
                self._loop.forget(self._sources[name])
                os.close(self._sources.pop(name))
        self._let_go()
        self.status = self._verdict
        self._note_left(self.status or 0)
        self.changed()


def _open_streams(made: list[int], *, stdin: bool) -> None:
    """Both ends of output, errors, what cannot be begun, how it ended; where it reads from, and is given by (or -1)."""
    for _ in range(4):
        made += os.pipe()
    made += os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)


def _is_open(fd: int) -> bool:
    return fd >= 0


class Jobs:
    """All jobs of a box, by name."""

    def __init__(self, loop: Loop, directory: str) -> None:
        self.loop = loop
        self.dead = trees.Dead()
        self._directory = directory
        self._jobs: dict[str, Job] = {}
        self._dropped: set[str] = set()
        self._count = 0

    def find(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def get(self, name: str) -> Job:
        """The job of a name.

        Raises:
            Refusal: there is none.
        """
        job = self._jobs.get(name)
        if job is None:
            raise Refusal("missing", f"there is no job {name} in it")
        return job

    def names(self) -> Mapping[str, Job]:
        return self._jobs

    def begin(self, plan: Plan, cap: int) -> Job:
        """Begin a job; the one that was begun under its name, if one was.

        Raises:
            Refusal: no process can be started, or the name belongs to a job that was dropped.
        """
        if plan.name in self._dropped:
            raise Refusal("refused", f"the job {plan.name} has run and was dropped: its name stays taken")
        if plan.name not in self._jobs:
            self._count += 1
            where = os.path.join(self._directory, str(self._count))
            self._jobs[plan.name] = self._begun(plan, where, cap)
        return self._jobs[plan.name]

    def _begun(self, plan: Plan, where: str, cap: int) -> Job:
        if sum(job.ended for job in self._jobs.values()) > _KEPT_JOBS:
            self.make_room()
        try:
            return Job(plan, self, where, cap)
        except Refusal as no:
            if no.kind != "full" or not self.make_room():
                raise
            return self._begun(plan, where, cap)

    def make_room(self) -> bool:
        """Keep no longer what the job wrote that was begun first of those that have ended. False: nothing is kept.

        What somebody may still wait for matters more; and whoever reads the other is told that it is gone.
        """
        return any(job.ended and job.forget() for job in self._jobs.values())

    def unwanted(self, job: Job, unwanted: bool) -> None:  # noqa: FBT001 - as it was asked
        """Whether nobody asks for it any more when it has ended."""
        job.unwanted = unwanted
        if unwanted and job.ended:
            self.forget(job)

    def forget(self, job: Job) -> None:
        """Its output is gone. A job that was never begun leaves its name free."""
        job.forget()
        self._jobs.pop(job.name, None)
        if job.begun:
            self._dropped.add(job.name)

    def end(self, job: Job) -> None:
        """The keeper of a job is gone.

        A job that killed its keeper may have left something, which is ours now: before that is dead, it has not ended.
        """
        strays = self._strays()
        if strays:
            for pid in strays:
                trees.send([*trees.descendants(pid), pid], trees.SIGKILL)
            self.loop.at(now_s() + _KILL_AGAIN_S, lambda: self.end(job))
            return
        job.settle()
        if job.unwanted:
            self.forget(job)

    def _strays(self) -> list[int]:
        keepers = {job.keeper for job in self._jobs.values() if not job.ended}
        self.dead.collect()
        self.dead.forget_but(keepers)
        return [pid for pid in trees.children() if pid not in keepers]
