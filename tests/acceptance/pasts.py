"""Sessions with a past: records as workers would have left them, written through the ports of a World."""

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from outlast.clock import ManualClock, SystemClock
from outlast.codec import encode_records
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyRecord,
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallRetracted,
    CallStarted,
    Decided,
    Payload,
    PromptQueued,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Usage,
    Verdict,
)
from outlast.session import Session
from outlast.world import Claim, Commit, Lease, Takeover, WorkerOffer, WorkerRow, World
from outlast.world.commit import Header, make_commit

AGENT: Final = "claude-code"
SPENT: Final = Usage(120, 640, 18_000, 900, 0.0214)
BATCH: Final = 40
"""Records of a long turn that stand in one commit: workers write fewer, and a test waits for each."""


def payload(value: object) -> Payload:
    return Payload(msgspec.Raw(msgspec.json.encode(value)))


@dataclass
class Past:
    """One session, written attempt by attempt. Moments are seconds from `began_s`."""

    world: World
    session: str
    began_s: float
    lease: Lease = field(default_factory=lambda: Lease("", 0, ""))
    seq: int = 0
    calls: int = 0
    turn: int = 0
    ordinals: dict[str, int] = field(default_factory=dict[str, int])
    waiting: list[Commit] = field(default_factory=list[Commit])
    batch: int = 1
    gathered: list[AnyRecord] = field(default_factory=list[AnyRecord])

    @classmethod
    async def begin(cls, world: World, session: str, began_s: float, prompt: str) -> "Past":
        opened = await Session.open(world, session, agent=AGENT, clock=ManualClock(began_s - 1))
        await opened.send(prompt, id=f"{session}-1")
        return cls(world, session, began_s)

    async def claim(self, worker: str, at_s: float) -> None:
        """A worker takes it over; the one before is dead."""
        await self.flush()
        with closing(self.world.open_liveness()) as liveness:
            liveness.renew(WorkerRow(worker, "", 0.0), 3600.0)
        opened = AttemptOpened(
            worker, "host", {"outlast": "1.0", "claude-code": "2.1.332"}, self.began_s + at_s
        )
        offer = WorkerOffer(
            worker, frozenset({AGENT}), FORMAT, dead=frozenset({self.lease.worker}), only=self.session
        )
        claim = await self.world.claim(offer, Takeover(encode_records([opened]), 1, PLAIN))
        assert isinstance(claim, Claim)
        self.lease, self.seq = claim.lease, claim.seq

    def add(self, *records: AnyRecord, **header: Any) -> None:
        """One commit of these, or of all that is gathered."""
        self.gathered.extend(records)
        if len(self.gathered) < self.batch and not header:
            return
        self.seq += 1
        status = f"turn {self.turn} open · {self.calls} calls"
        made = Header(self.seq, self.lease.fence, FORMAT, len(self.gathered), turn_open=True, status=status)
        made = msgspec.structs.replace(made, **header)
        self.waiting.append(make_commit(made, encode_records(self.gathered)))
        self.gathered.clear()

    async def flush(self) -> None:
        """Let what was added land."""
        if self.gathered:
            self.add(parked=False)
        for commit in self.waiting:
            (failed,) = await self.world.commit_many([(self.lease, commit)])
            if failed is not None:
                raise failed
        self.waiting.clear()

    def open(self, at_s: float, prompt: str) -> None:
        self.turn += 1
        name = f"{self.session}-{self.turn}"
        self.ordinals.clear()
        moment = self.began_s + at_s
        records = [PromptQueued(name, payload(prompt)), TurnOpened(self.turn, name, payload(prompt), moment)]
        self.add(*records, consumes=(name,))

    def intent(
        self, at_s: float, kind: Any, name: str, arguments: object = None, **fields: Any
    ) -> CallIntent:
        self.calls += 1
        lane = fields.pop("lane", "main")
        place = f"{kind}/{lane}"
        ordinal = self.ordinals[place] = self.ordinals.get(place, -1) + 1
        given = payload(arguments)
        moment = self.began_s + at_s
        return CallIntent(self.calls, self.turn, lane, ordinal, kind, name, given, at_s=moment, **fields)

    def ended(
        self, call: CallIntent, at_s: float, status: Any = "ok", usage: Usage | None = None, **more: Any
    ) -> CallOutcome:
        moment = self.began_s + at_s
        took = more.pop("took_s", round(moment - call.at_s, 4))
        result = more.pop("result", "done")
        return CallOutcome(call.call, self.turn, status, payload(result), call.lane, usage, took, moment)

    def model(
        self, at_s: float, took_s: float, *asks: tuple[str, dict[str, Any]], lane: str = "main"
    ) -> list[CallIntent]:
        """A model call that ended, and the tool calls that its answer asks for, granted."""
        asked = self.intent(
            at_s, "model", "claude-sonnet-5-5", {"frame": "f"}, lane=lane, policy="safe", runs_in="provider"
        )
        self.add(asked)
        end_s = at_s + took_s
        said = {"content": [{"type": "text", "text": "Looking."}]}
        tools = [
            self.intent(
                end_s,
                "tool",
                name,
                about,
                lane=lane,
                policy=POLICIES.get(name, "never"),
                granted=True,
                asked_by=asked.call,
                runs_in="harness",
                spawns=name == "Task",
            )
            for name, about in asks
        ]
        self.add(self.ended(asked, end_s, usage=SPENT, result=said), *tools)
        return tools

    def run(
        self, call: CallIntent, at_s: float, took_s: float, status: Any = "ok", result: object = "done"
    ) -> None:
        self.start(call, at_s)
        self.add(self.ended(call, at_s + took_s, status, result=result, took_s=took_s))

    def start(self, call: CallIntent, at_s: float) -> None:
        self.add(CallStarted(call.call, self.turn, call.lane, self.began_s + at_s))


POLICIES: Final[dict[str, Any]] = {
    "Read": "safe",
    "Grep": "safe",
    "Task": "safe",
    "Write": "verify",
    "Edit": "verify",
}


async def eventful(world: World, session: str, began_s: float) -> Past:
    """A turn that lost a worker, was handed over, waited for days, asked a person, and ended."""
    past = await Past.begin(world, session, began_s, "Add a pricing page and make its test pass")
    await past.claim("worker-a", 0)
    past.open(0.2, "Add a pricing page and make its test pass")
    read, grep = past.model(
        0.4, 2.6, ("Read", {"file_path": "app/routes.py"}), ("Grep", {"pattern": "pricing"})
    )
    past.run(read, 3.0, 0.2)
    past.run(grep, 3.0, 0.9)
    (task,) = past.model(4, 3.2, ("Task", {"description": "find how other pages are tested"}))
    past.start(task, 7.2)
    (inner,) = past.model(7.4, 2.0, ("Grep", {"pattern": "def test_"}), lane="sub1")
    past.run(inner, 9.4, 0.4)
    past.model(9.9, 2.2, lane="sub1")
    past.add(past.ended(task, 12.3))
    (tests,) = past.model(12.5, 4.1, ("Bash", {"command": "pytest -q tests/test_pricing.py"}))
    past.start(tests, 16.7)
    await past.claim("worker-b", 93)
    push = _tested_and_pushed(past, tests)
    past.add(AttemptEnded(past.turn, "handed_over", at_s=past.began_s + 116, cut=(push.call,)))
    await past.claim("worker-c", 117.5)
    past.add(TurnParked(past.turn, "decision", {"in_doubt": [push.call]}, past.began_s + 118), parked=True)
    await past.flush()
    await Session(world, session, SystemClock()).decide(push.call, "run_again", id=f"{session}-d", by="ann")
    await past.claim("worker-d", 9_400)
    ruled = Decided(past.turn, push.call, "run_again", f"{session}-d", "ann", past.began_s + 9_400)
    past.add(ruled, TurnReleased(past.turn, "ann", past.began_s + 9_400), consumes=(f"{session}-d",))
    past.run(push, 9_400.3, 2.2)
    wait = past.intent(9_403, "wait", "signal", {"signal": "ci"})
    past.add(wait)
    past.add(AttemptEnded(past.turn, "waiting", at_s=past.began_s + 9_403.2))
    await past.claim("worker-a", 190_000)
    past.add(past.ended(wait, 190_000.1))
    past.model(190_000.3, 3.4)
    past.add(
        TurnSettled(
            past.turn,
            "done",
            payload("The page is there."),
            "",
            past_usage(7),
            past.began_s + 190_004,
            past.began_s,
        ),
        turn_open=False,
        release=True,
    )
    await past.flush()
    return past


def _tested_and_pushed(past: Past, tests: CallIntent) -> CallIntent:
    past.add(Verdict(tests.call, past.turn, "not_done", lane="main"))
    past.run(tests, 93.2, 11.0, "error", "1 failed")
    cut = past.intent(104.4, "model", "claude-sonnet-5-5", {"frame": "f"}, policy="safe", runs_in="provider")
    past.add(cut)
    past.add(
        CallRetracted(cut.call, past.turn, "main", "the answer was cut", Usage(120, 90, 18_000, 0, 0.0031))
    )
    (write,) = (
        past.intent(
            110,
            "tool",
            "Write",
            {"file_path": "app/pricing.py"},
            policy="verify",
            granted=True,
            asked_by=cut.call,
            runs_in="harness",
        ),
    )
    past.add(past.ended(cut, 110, usage=SPENT, took_s=4.0), write)
    past.run(write, 110.1, 0.3)
    (push,) = past.model(110.5, 3.0, ("Bash", {"command": "git push origin pricing"}))
    past.start(push, 113.6)
    return push


def past_usage(calls: int) -> Usage:
    return sum([SPENT] * calls, start=Usage())


async def long(world: World, session: str, began_s: float, calls: int, *, settled: bool = False) -> Past:
    """A turn of so many calls, in which a worker is lost every 2,000; it goes on, unless it is `settled`."""
    past = await Past.begin(world, session, began_s, "Migrate every module")
    await past.claim("worker-1", 0)
    past.open(0.1, "Migrate every module")
    past.batch = BATCH
    at_s, workers = 0.2, 1
    while past.calls < calls:
        if past.calls // 2_000 >= workers:
            workers += 1
            at_s += 300
            await past.claim(f"worker-{workers}", at_s)
        (tool,) = past.model(at_s, 1.9, ("Bash", {"command": f"pytest -q tests/test_{past.calls}.py"}))
        at_s += 2
        past.run(tool, at_s, 1.4, "error" if past.calls % 97 == 0 else "ok")
        at_s += 1.5
    if settled:
        past.add(
            TurnSettled(past.turn, "done", payload("Done."), "", Usage(), past.began_s + at_s, past.began_s),
            turn_open=False,
            release=True,
        )
    await past.flush()
    return past
