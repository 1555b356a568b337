"""What a holder may ask of the supervisor, and what it is answered."""

# ruff: noqa: PTH118
# pathlib would double the start-up time.

from __future__ import annotations

import _socket
import os

from outlast.workspaces.sandbox.inside import files, wire
from outlast.workspaces.sandbox.inside.jobs import Job, Jobs, Plan, Refusal
from outlast.workspaces.sandbox.inside.loop import READ, Loop, accept, now_s
from outlast.workspaces.sandbox.inside.streams import Holding, Stream
from outlast.workspaces.sandbox.inside.trees import Start
from outlast.workspaces.sandbox.inside.ways import Ways

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LONGEST_WAIT_S = 30.0
_REMEMBERED = 256
_TOLD = 4_000
_NOTE = 4096
STREAMS = ("stdout", "stderr")


class Server:
    """Answers holders; kills what its holder left; ends."""

    alone_s = 0.0
    """A box that is not to outlive its holder ends when no stream of that was there for so long; 0: when its time is
    over."""

    def __init__(self, loop: Loop, listener: _socket.socket, directory: str, first_s: float) -> None:
        self.loop = loop
        self.holding = Holding(first_s)
        self.jobs = Jobs(loop, directory)
        self.ways = Ways(loop)
        self.ways.on_came = self._offer_ways
        self.streams: set[Stream] = set()
        self._listener = listener
        self._life = os.urandom(8).hex()
        self._heard_s = now_s()
        self._fetching: list[Callable[[], bool]] = []
        self._done: dict[tuple[str, int], dict[str, object]] = {}
        listener.setblocking(False)  # noqa: FBT003 - the library's own signature
        loop.watch(listener.fileno(), READ, lambda _events: self._accept())
        self._watch_times()

    def take(self, stream: Stream, asked: dict[str, Any]) -> None:
        """Answer what was asked, now or when there is something to say."""
        number = asked.get("id", 0)
        try:
            if asked.get("op") != "hello":
                self._check_fence(stream.fence)
            answer = self._answer(stream, asked)
        except Refusal as no:
            answer = self._refusal(no)
        except (FileNotFoundError, NotADirectoryError) as absent:
            answer = {"error": f"{absent.filename}: {absent.strerror}", "kind": "absent"}
        except OSError as failed:
            answer = {"error": f"{failed.filename or ''}: {failed.strerror}", "kind": "refused"}
        except Exception as wrong:  # noqa: BLE001 - a question that goes wrong in any way must not end the box
            answer = {"error": f"{asked.get('op')} was asked wrongly: {wrong!r}"[:_TOLD], "kind": "refused"}
        if answer is not None:
            stream.answer({"id": number, **answer})

    def carry(self, stream: Stream, asked: dict[str, Any], first: bytes) -> None:
        """The stream is that of a connection from here on; `first` of it has come already."""
        mine = asked.get("fence") == self.holding.fence
        if not mine or not self.ways.carry(asked.get("carry", 0), stream.sock, first):
            stream.sock.close()

    def closed(self, stream: Stream) -> None:
        """Nothing more is asked over it."""
        self.streams.discard(stream)

    def _answer(self, stream: Stream, asked: dict[str, Any]) -> dict[str, object] | None:
        answer = getattr(self, f"_op_{asked['op']}", None)
        if answer is None:
            raise Refusal("refused", f"this supervisor (protocol {wire.VERSION}) knows no {asked['op']}")
        return answer(stream, asked)

    # ------------------------------------------------------------------ holding

    def _op_hello(self, stream: Stream, asked: dict[str, Any]) -> None:
        if wire.VERSION not in asked["versions"]:
            raise Refusal("version", f"it speaks protocol {wire.VERSION}, the worker {asked['versions']}")
        holding = self.holding
        self._check_fence(asked["fence"])
        # Who says hello again, over another stream, is told what it was to be told the first time.
        again = holding.held and asked["client"] == holding.client
        self.ways.tell_again()
        self.ways.open(asked["ways"])
        holding.take(asked)
        stream.fence, stream.client = asked["fence"], asked["client"]
        self._wake()
        hello: dict[str, object] = {
            "id": asked["id"],
            "version": wire.VERSION,
            "life": self._life,
            "lived": int(holding.lived),
            "noted": holding.noted,
        }
        self._when_dead(self._dying() if again else self._kill_tied(), stream, hello)

    def _op_beat(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        self.holding.beat(asked["for_ms"] / 1000)
        return {}

    def _op_note(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        self.holding.noted = str(asked["text"])[:_NOTE]
        return {}

    def _op_leave(self, stream: Stream, asked: dict[str, Any]) -> None:
        self.holding.beat(0)
        self.ways.open([])
        self._when_dead(self._kill_tied(), stream, {"id": asked["id"]})

    def _refusal(self, no: Refusal) -> dict[str, object]:
        return {"error": str(no), "kind": no.kind, "fence": self.holding.fence}

    def _check_fence(self, fence: int) -> None:
        if fence < self.holding.fence:
            raise Refusal("fenced", f"fence {self.holding.fence} holds the box, {fence} is older")

    def _dying(self) -> list[Job]:
        return [job for job in self.jobs.names().values() if job.tied and job.dying]

    def _kill_tied(self) -> list[Job]:
        tied = [job for job in self.jobs.names().values() if job.tied and not job.ended]
        for job in tied:
            job.kill()
        return tied

    @staticmethod
    def _when_dead(rest: list[Job], stream: Stream, message: dict[str, object]) -> None:
        """Answer when these jobs are dead."""

        def settled() -> bool:
            if all(job.ended for job in rest):
                if message:
                    stream.answer(dict(message))
                    message.clear()
                return True
            return False

        if not settled():
            for job in rest:
                job.waiting.append(settled)

    # ------------------------------------------------------------------ jobs

    def _op_begin(self, stream: Stream, asked: dict[str, Any]) -> None:
        holding = self.holding
        env = {**holding.env, **asked["env"]}
        start = Start(asked["argv"], os.path.join(holding.cwd, asked["cwd"]), env, holding.limits)
        if not start.argv:
            raise Refusal("refused", "a job needs a program")
        plan = Plan(
            asked["job"],
            start,
            tied=bool(asked["tied"]),
            stdin=bool(asked["stdin"]),
            timeout_s=asked["timeout_ms"] / 1000,
        )
        plan.merged, plan.paced = bool(asked.get("merged")), bool(asked.get("paced"))
        job = self.jobs.begin(plan, holding.cap)
        number = asked["id"]

        def begun() -> bool:
            if job.failed:
                stream.answer({"id": number, "error": f"it cannot start {job.failed}", "kind": "refused"})
                self.jobs.forget(job)
            elif job.begun:
                stream.answer({"id": number, "stdin_at": job.stdin_at})
            return bool(job.failed) or job.begun

        if not begun():
            job.waiting.append(begun)

    def _op_find(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        job = self.jobs.find(asked["job"])
        return {} if job is None or not job.begun else {"stdin_at": job.stdin_at}

    def _op_tie(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        job = self.jobs.find(asked["job"])
        if job is not None:
            job.tie()
            self.jobs.unwanted(job, not asked["kept"])
        return {}

    def _op_loose(self, _stream: Stream, _asked: dict[str, Any]) -> dict[str, object]:
        jobs = self.jobs.names().values()
        return {"jobs": [job.name for job in jobs if not (job.tied or job.ended)]}

    def _op_output(self, stream: Stream, asked: dict[str, Any]) -> None:
        job, name, offset = self.jobs.get(asked["job"]), asked["stream"], asked["offset"]
        if name not in STREAMS:
            raise Refusal("refused", f"a job has no stream {name}")

        def news() -> dict[str, object] | None:
            at, data = job.read(name, offset, wire.PIECE)
            if data or job.ended:
                return {"at": at, "data": data, "end": int(job.ended and not data)}
            return None

        self._wait(stream, asked, job, news)

    def _op_wait(self, stream: Stream, asked: dict[str, Any]) -> None:
        job = self.jobs.get(asked["job"])
        self._wait(stream, asked, job, lambda: None if job.status is None else {"status": job.status})

    def _op_left(self, stream: Stream, asked: dict[str, Any]) -> None:
        job = self.jobs.get(asked["job"])
        self._wait(stream, asked, job, lambda: job.left)

    def _op_write(self, stream: Stream, asked: dict[str, Any]) -> None:
        job = self.jobs.get(asked["job"])
        job.give(asked["at"], asked["data"])
        self._wait(stream, asked, job, lambda: {"given": 1} if job.given() else None)

    def _op_close_stdin(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        self.jobs.get(asked["job"]).close_stdin()
        return {}

    def _op_signal(self, stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        return self._once(stream, asked, lambda: self.jobs.get(asked["job"]).signal(asked["number"]))

    def _op_drop(self, stream: Stream, asked: dict[str, Any]) -> dict[str, object] | None:
        job = self.jobs.find(asked["job"])
        if job is None:
            return {"dropped": 1}
        job.kill()

        def dropped() -> dict[str, object] | None:
            if not job.ended:
                return None
            self.jobs.forget(job)
            return {"dropped": 1}

        self._wait(stream, asked, job, dropped)
        return None

    # ------------------------------------------------------------------ files

    def _op_read(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        return files.read(self._path(asked), asked["offset"])

    def _op_put(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        what = (asked["data"], asked["offset"], asked["end"], asked["mode"], asked["token"])
        return files.write(self._path(asked), *what)

    def _op_stat(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        return files.find(self._path(asked))

    def _op_list(self, _stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        return files.list_(self._path(asked), asked["after"])

    def _op_remove(self, stream: Stream, asked: dict[str, Any]) -> dict[str, object]:
        return self._once(stream, asked, lambda: files.remove(self._path(asked)))

    def _path(self, asked: dict[str, Any]) -> str:
        return os.path.join(self.holding.cwd, asked["path"])

    # ------------------------------------------------------------------ ways

    def _op_accept(self, stream: Stream, asked: dict[str, Any]) -> None:
        """The next connection that came to a way; answered late, or with nothing."""
        number = asked["id"]
        end_s = now_s() + min(asked["wait_ms"] / 1000, _LONGEST_WAIT_S)

        def settled() -> bool:
            if stream.sock.fileno() < 0 or stream.fence < self.holding.fence:
                return True
            came = self.ways.next()
            if came is None and now_s() < end_s:
                return False
            stream.answer({"id": number, **(came or {})})
            return True

        if not settled():
            self._fetching.append(settled)

    def _offer_ways(self) -> None:
        self._fetching = [one for one in self._fetching if not one()]

    # ------------------------------------------------------------------ the rest

    def _wait(
        self, stream: Stream, asked: dict[str, Any], job: Job, news: Callable[[], dict[str, object] | None]
    ) -> None:
        """Answer when there is news of a job, or with nothing when the time that was asked for is over."""
        number = asked["id"]
        end_s = now_s() + min(asked.get("wait_ms", 0) / 1000, _LONGEST_WAIT_S)

        def settled() -> bool:
            if stream.sock.fileno() < 0:
                return True
            try:
                self._check_fence(stream.fence)
                answer = news()
            except Refusal as no:
                answer = self._refusal(no)
            if answer is None and now_s() < end_s:
                return False
            stream.answer({"id": number, **(answer or {})})
            return True

        if not settled():
            job.waiting.append(settled)

    def _once(self, stream: Stream, asked: dict[str, Any], act: Callable[[], object]) -> dict[str, object]:
        """Do what is not the same when it is done twice: a repetition, on a new stream, gets the first answer."""
        key = (stream.client, asked["id"])
        if key not in self._done:
            act()
            self._done[key] = {}
            while len(self._done) > _REMEMBERED:
                self._done.pop(next(iter(self._done)))
        return self._done[key]

    def _wake(self) -> None:
        for job in list(self.jobs.names().values()):
            job.changed()
        self._offer_ways()

    def _accept(self) -> None:
        fd = accept(self._listener)
        if fd < 0:
            return
        self.streams.add(Stream(_socket.socket(fileno=fd), self))

    def _left_alone(self, now: float) -> bool:
        holding = self.holding
        if not holding.held or any(stream.client == holding.client for stream in self.streams):
            self._heard_s = now
        return bool(self.alone_s) and holding.idle_s == 0 and now >= self._heard_s + self.alone_s

    def _watch_times(self) -> None:
        """Every quarter of a second: deadlines of the holder, time-outs of what waits, the dead."""
        now, holding = now_s(), self.holding
        if now >= holding.until_s + holding.idle_s or self._left_alone(now):
            self.loop.over = True
            return
        if now >= holding.until_s and holding.held:
            self._kill_tied()
            for job in self.jobs.names().values():
                job.hurry()
        self._wake()
        self.jobs.dead.collect()
        self.loop.at(now + 0.25, self._watch_times)
