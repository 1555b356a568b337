"""Records of every kind with any content, and logs that keep the documented order."""

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from outlast.codec import encode_records
from outlast.records import (
    FORMAT,
    AnyInput,
    AnyRecord,
    Attached,
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallRetracted,
    CallStarted,
    Decided,
    DocumentEdited,
    EditRejected,
    FilesKept,
    FilesLost,
    InputDropped,
    InputRefused,
    LostCall,
    Mirrored,
    NoticeDue,
    NoticeTried,
    Payload,
    PromptQueued,
    ResultTold,
    ScheduleCame,
    Scheduled,
    SessionOpened,
    SignalKept,
    SteerTaken,
    Touched,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Unscheduled,
    Usage,
    Verdict,
)
from outlast.records.kinds import OnDoubt, OutcomeStatus, ParkedFor, Policy, Ruling
from outlast.world.commit import Commit, Header, make_commit

StructT = TypeVar("StructT", bound=msgspec.Struct)

KINDS: tuple[type[AnyRecord], ...] = get_args(AnyRecord)
INPUTS: tuple[type[AnyInput], ...] = get_args(AnyInput)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
names = st.text("abcdefgh-_0123456789", min_size=1, max_size=22)


def inline(value: object) -> Payload:
    """A payload that stands in its record."""
    return Payload(json=msgspec.Raw(msgspec.json.encode(value)))


payloads = values.map(inline) | st.builds(Payload, ref=names, size=st.integers(1, 10**9))
_counts = st.integers(0, 10**6)
usages = st.builds(
    Usage, _counts, _counts, _counts, _counts, st.integers(0, 10**4).map(lambda cents: cents / 64)
)


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of the annotation of a field."""
    simple: dict[object, st.SearchStrategy[Any]] = {
        str: st.text(max_size=12),
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
        Any: values,
        Payload: payloads,
        Usage: usages,
    }
    if kind in simple:
        return simple[kind]
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return st.sampled_from(parts)
    if get_origin(kind) in {Union, types.UnionType}:
        return st.one_of(*(of_type(part) for part in parts))
    if get_origin(kind) is tuple:
        return st.lists(of_type(parts[0]), max_size=3).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(of_type(parts[0]), of_type(parts[1]), max_size=3)
    if issubclass(kind, msgspec.Struct):
        return structs(kind)
    raise TypeError(kind)


def structs(kind: type[StructT]) -> st.SearchStrategy[StructT]:
    """Any value of a record, an input or a delta."""
    return st.builds(kind, **{one.name: of_type(one.type) for one in msgspec.structs.fields(kind)})


records: st.SearchStrategy[AnyRecord] = st.one_of(*(structs(kind) for kind in KINDS))
inputs: st.SearchStrategy[AnyInput] = st.one_of(*(structs(kind) for kind in INPUTS))


def commit(seq: int, fence: int, of: list[AnyRecord], *, snapshot: bool = False) -> Commit:
    """A commit as the engine makes them."""
    body = encode_records(of)
    return make_commit(Header(seq, fence, FORMAT, len(of), snapshot=snapshot), body)


some_payloads = st.sampled_from([inline("text"), inline({"a": [1, None]}), Payload(ref="blob", size=9000)])
some_files = st.sampled_from([(), (), (Attached("a.png", "image/png", 9, "blob"),)])
some_usages = st.sampled_from([None, Usage(1, 2, 3, 4, 0.25), Usage(output_tokens=7, cost_usd=1.5)])
"""For logs: what a payload holds is nothing to folding and recovery."""

_worker = st.just("worker")
_runs = {
    "model": st.sampled_from(["provider", "worker"]),
    "tool": st.sampled_from(["worker", "harness"]),
    "wait": _worker,
    "value": _worker,
}
_policies = of_type(Policy)
_on_doubt = of_type(OnDoubt)
_statuses = of_type(OutcomeStatus)
_touched = st.sampled_from([None, Touched("a.py", ("a.py",)), Touched("make", more=True)])
_rulings = of_type(Ruling)
_parked_for = of_type(ParkedFor)
_ends = st.sampled_from(["failed", "provider", "handed_over", "waiting"])
_waits = st.sampled_from(["sleep", "signal", "person"])

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class LogMaker:
    """Writes what an engine might write next, and keeps its own count of what that allows."""

    draw: Draw
    commits: list[tuple[int, list[AnyRecord]]] = field(default_factory=list[tuple[int, list[AnyRecord]]])
    """Fence and records of each."""
    turn: int = 0
    open_turn: bool = False
    calls: dict[int, CallIntent] = field(default_factory=dict[int, CallIntent])
    """Those open."""
    ordinals: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    call: int = 0
    prompts: int = 0
    queue: list[PromptQueued] = field(default_factory=list[PromptQueued])
    said: int = 0
    """Signals and decisions that came."""
    signals: list[str] = field(default_factory=list[str])
    """Inputs of those that wait."""
    notices: int = 0
    untold: list[int] = field(default_factory=list[int])
    plans: list[str] = field(default_factory=list[str])
    """Schedules that stand."""
    versions: dict[str, int] = field(default_factory=dict[str, int])
    """Of the documents."""
    lines: dict[str, int] = field(default_factory=dict[str, int])
    fence: int = 0

    def put(self, *more: AnyRecord) -> None:
        """Add records, in this commit or in the next."""
        if self.draw(st.booleans()):
            self.commits.append((self.fence, []))
        self.commits[-1][1].extend(more)

    def begin(self) -> None:
        self.commits.append((0, [SessionOpened("s", "agent", "scripted", {"model": "m"})]))
        self.take_over()

    def take_over(self) -> None:
        self.fence += self.draw(st.integers(1, 2))
        self.commits.append((self.fence, [AttemptOpened(f"worker-{self.fence}", "host")]))
        self.commits.append((self.fence, []))

    def step(self) -> None:
        """Write one thing that may come next."""
        anytime = [self.queue_prompt, self.drop, self.mirror, self.take_over, self.keep_signal]
        anytime += [self.owe, self.plan, self.edit]
        in_turn = [
            self.keep_files,
            self.lose_files,
            self.tell,
            self.intent,
            self.intent,
            self.steer,
            self.park,
            self.settle,
            self.end_attempt,
        ]
        with_call = [self.outcome, self.outcome, self.start, self.retract, self.verdict, self.decide]
        choices: list[Callable[[], None]] = [*anytime]
        choices += [*in_turn, *(with_call if self.calls else [])] if self.open_turn else [self.begin_turn] * 3
        self.draw(st.sampled_from(choices))()

    def queue_prompt(self) -> None:
        self.prompts += 1
        prompt = PromptQueued(
            f"in-{self.prompts}",
            self.draw(some_payloads),
            self.draw(st.booleans()),
            attachments=self.draw(some_files),
        )
        self.queue.append(prompt)
        self.put(prompt)

    def drop(self) -> None:
        self.put(InputDropped("gone", "nobody can read it"), InputRefused("late", "ci", "so many wait"))

    def mirror(self) -> None:
        file = self.draw(st.sampled_from(["a.jsonl", "b.jsonl"]))
        known = self.lines.get(file, 0)
        position = self.draw(st.integers(max(0, known - 3), known))
        count = self.draw(st.integers(0, 4))
        self.lines[file] = position + count
        self.put(Mirrored(file, position, inline(["line"] * count), count))

    def keep_files(self) -> None:
        root = self.draw(st.sampled_from(["", "root-1", "root-2"]))
        call = self.some_call().call if self.calls and self.draw(st.booleans()) else 0
        why = "call" if call else self.draw(st.sampled_from(["begin", "end"]))
        aside = self.draw(some_payloads)
        self.put(FilesKept(root, self.turn, why, call, aside, changed=("a.txt",)))

    def lose_files(self) -> None:
        behind = self.some_call().call if self.calls and self.draw(st.booleans()) else 0
        gone = tuple(
            LostCall(call, self.turn, "bash") for call in range(self.draw(st.integers(0, self.call)))
        )
        self.put(FilesLost(self.turn, gone, text="gone", behind=behind))

    def tell(self) -> None:
        call = f"toolu_{self.draw(st.integers(0, self.call))}"
        self.put(ResultTold(self.turn, call, self.draw(_statuses), self.draw(some_payloads)))

    def begin_turn(self) -> None:
        if not self.queue:
            self.queue_prompt()
        self.turn, self.open_turn = self.turn + 1, True
        prompt = self.queue.pop(0)
        self.ordinals.clear()
        self.put(TurnOpened(self.turn, prompt.input, prompt.prompt, attachments=prompt.attachments))

    def intent(self) -> None:
        draw = self.draw
        kind = draw(st.sampled_from(["model", "tool", "tool", "wait", "value"]))
        lane = draw(st.sampled_from(["main", "sub1"]))
        self.call += 1
        place = self.ordinals.get((kind, lane), 0)
        self.ordinals[kind, lane] = place + 1
        intent = CallIntent(
            call=self.call,
            turn=self.turn,
            lane=lane,
            ordinal=place,
            kind=kind,
            name=draw(_waits) if kind == "wait" else "anything",
            arguments=draw(some_payloads),
            policy=draw(_policies),
            on_doubt=draw(_on_doubt),
            key="key",
            key_until_s=draw(st.sampled_from([0.0, 50.0, 150.0])),
            harness_id=draw(st.sampled_from(["", f"toolu_{self.call}"])) if kind == "tool" else "",
            runs_in=draw(_runs[kind]),
            granted=kind == "tool" and draw(st.booleans()),
            spawns=kind == "tool" and lane == "main" and draw(st.booleans()),
            until_s=draw(st.sampled_from([0.0, 120.0])) if kind == "wait" else 0.0,
            at_s=draw(st.sampled_from([0.0, 90.0])),
        )
        self.calls[self.call] = intent
        self.put(intent)

    def some_call(self) -> CallIntent:
        return self.calls[self.draw(st.sampled_from(sorted(self.calls)))]

    def start(self) -> None:
        self.put(CallStarted(self.some_call().call, self.turn))

    def outcome(self) -> None:
        self.put(self.end(self.some_call()))

    def end(self, intent: CallIntent) -> CallOutcome:
        del self.calls[intent.call]
        status = self.draw(_statuses)
        usage = self.draw(some_usages) if intent.kind == "model" else None
        signal = ""
        if intent.kind == "wait" and self.signals and self.draw(st.booleans()):
            signal = self.signals.pop(self.draw(st.integers(0, len(self.signals) - 1)))
        touched = self.draw(_touched) if intent.kind == "tool" else None
        return CallOutcome(
            intent.call,
            self.turn,
            status,
            self.draw(some_payloads),
            usage=usage,
            signal=signal,
            touched=touched,
        )

    def retract(self) -> None:
        intent = self.some_call()
        no_effect = intent.kind == "tool" and self.draw(st.booleans())
        self.put(CallRetracted(intent.call, self.turn, usage=self.draw(some_usages), no_effect=no_effect))

    def verdict(self) -> None:
        said = self.draw(st.sampled_from(["done", "not_done", "unsure"]))
        self.put(Verdict(self.some_call().call, self.turn, said))

    def steer(self) -> None:
        self.put(SteerTaken(self.turn, "in-steer", self.call))

    def keep_signal(self) -> None:
        self.said += 1
        self.signals.append(f"signal-{self.said}")
        self.put(
            SignalKept(self.signals[-1], self.draw(st.sampled_from(["ci", "paid"])), self.draw(some_payloads))
        )

    def owe(self) -> None:
        """Somebody is to be told, or was, or could not be."""
        if not self.untold or self.draw(st.booleans()):
            self.notices += 1
            self.untold.append(self.notices)
            self.put(NoticeDue(self.notices, max(1, self.turn), "settled", calls=(self.call,)))
            return
        number = self.draw(st.sampled_from(self.untold))
        ok, again_s = self.draw(st.booleans()), self.draw(st.sampled_from([0.0, 5.0]))
        if ok or not again_s:
            self.untold.remove(number)
        self.put(NoticeTried(number, ok=ok, again_at_s=again_s))

    def plan(self) -> None:
        """A schedule is set, comes, or is removed."""
        name = self.draw(st.sampled_from(["nightly", "hourly"]))
        what = self.draw(st.sampled_from(["set", "comes", "ends", "removed"]))
        if name not in self.plans or what == "set":
            self.plans = [*{*self.plans, name}]
            self.put(Scheduled(name, "in-plan", self.draw(some_payloads), 60.0, every_s=60.0))
            return
        if what != "comes":
            self.plans.remove(name)
        removed = Unscheduled(name, "in-plan")
        self.put(
            removed if what == "removed" else ScheduleCame(name, 60.0, 120.0 if what == "comes" else 0.0)
        )

    def edit(self) -> None:
        name = self.draw(st.sampled_from(["plan", "notes"]))
        version = self.versions.get(name, 0)
        if self.draw(st.booleans()):
            self.put(EditRejected(name, "it does not fit", version, input="in-edit"))
            return
        self.versions[name] = version + 1
        call = self.some_call().call if self.calls and self.draw(st.booleans()) else 0
        edited = DocumentEdited(name, version + 1, self.draw(some_payloads), call=call, by="ann")
        self.put(edited)

    def decide(self) -> None:
        self.said += 1
        decided = Decided(
            self.turn, self.some_call().call, self.draw(_rulings), f"decision-{self.said}", "ann"
        )
        self.put(decided)

    def park(self) -> None:
        self.put(TurnParked(self.turn, self.draw(_parked_for)))
        if self.draw(st.booleans()):
            self.put(TurnReleased(self.turn, "somebody"))

    def end_attempt(self) -> None:
        why = self.draw(_ends)
        waits = self.draw(st.booleans())
        self.put(AttemptEnded(self.turn, why, "exit status 1" if why == "failed" else "", waits=waits))

    def settle(self) -> None:
        outcomes = [self.end(intent) for intent in list(self.calls.values())]
        self.open_turn = False
        self.put(*outcomes, TurnSettled(self.turn, "done"))

    def log(self) -> list[Commit]:
        """The commits, empty ones left out."""
        full = [(fence, of) for fence, of in self.commits if of]
        return [commit(seq, fence, of) for seq, (fence, of) in enumerate(full, 1)]


@st.composite
def logs(draw: Draw, longest: int = 20) -> list[Commit]:
    """Logs of up to so many things that happened."""
    maker = LogMaker(draw)
    maker.begin()
    for _ in range(draw(st.integers(0, longest))):
        maker.step()
    return maker.log()
