"""What must hold of every turn, however often its workers were killed; each broken promise as a sentence."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import anyio
import msgspec

from outlast.calls import SIDE
from outlast.fold import SessionState, fold, records_of
from outlast.records import AnyRecord, CallIntent, CallOutcome, Payload
from outlast.squeezing import unsqueeze
from outlast.testing.adapter_contract.shop import Effect
from outlast.testing.adapter_contract.subject import Subject
from outlast.testing.adapter_contract.wire import Prompt, pairs, prompt_of, understood
from outlast.testing.models import RequestRecord
from outlast.world import Commit, World

_ANSWER_ID = re.compile(r"_(\d+)_(\d+)_[0-9a-f]{8}(?![0-9a-f])")
"""Within the ids of the scripted model's answers: the step, and the number of the request."""
_MARK = re.compile(r'"mark": *"([^"]+)"')
_GONE_S = 15.0


@dataclass(frozen=True)
class Counted:
    """What was counted outside of the log: effects, and the model requests of one session."""

    effects: Sequence[Effect]
    requests: Sequence[RequestRecord]
    bodies: Mapping[int, bytes]


@dataclass(frozen=True)
class Evidence:
    """Everything that was counted: at the provider's door, outside, in the log."""

    subject: Subject
    session: str
    commits: Sequence[Commit]
    records: Sequence[AnyRecord]
    state: SessionState
    blobs: Mapping[str, bytes]
    counted: Counted

    @property
    def effects(self) -> Sequence[Effect]:
        return self.counted.effects

    @property
    def requests(self) -> Sequence[RequestRecord]:
        """Model requests of this session's conversations."""
        return self.counted.requests

    @property
    def bodies(self) -> Mapping[int, bytes]:
        return self.counted.bodies

    def value(self, payload: Payload) -> Any:
        text = unsqueeze(self.blobs[payload.ref]) if payload.ref else bytes(payload.json)
        return msgspec.json.decode(text) if text else None

    def intents(self, kind: str) -> list[CallIntent]:
        return [one for one in self.records if isinstance(one, CallIntent) and one.kind == kind]

    def mark(self, intent: CallIntent) -> str | None:
        """What the effect of a tool call is counted by."""
        return _mark(self.value(intent.arguments))

    def outcomes(self) -> dict[int, CallOutcome]:
        return {one.call: one for one in self.records if isinstance(one, CallOutcome)}

    def lanes(self, conversation: str) -> set[str]:
        """The lanes whose answers are of a conversation of the script."""
        lanes = {intent.call: intent.lane for intent in self.intents("model")}
        of = {request.n: request.conversation for request in self.requests}
        return {lanes[call] for number, call in _finished(self) if of.get(number) == conversation}


async def gather(
    subject: Subject, world: World, session: str, commits: Sequence[Commit], counted: Counted
) -> Evidence:
    """Read what the checks need."""
    records = [record for commit in commits for record in records_of(session, commit)]
    refs = sorted({ref for commit in commits for ref in commit.header.refs})
    blobs = await world.get_many(session, refs) if refs else dict[str, bytes]()
    return Evidence(subject, session, commits, records, fold(session, commits), blobs, counted)


def broken(evidence: Evidence, *, lost_answers: int, twins: bool = False) -> list[str]:
    """Every promise that did not hold.

    Args:
        lost_answers: how many answers of the provider may have come to nothing: at most one for each call that was
            under way at a kill, and for each scripted failure.
        twins: two sub-agents ask for the same, so that a request cannot be told from its twin's.
    """
    return [
        *_turns(evidence),
        *_model_calls(evidence, lost_answers, twins=twins),
        *_tool_calls(evidence),
        *_requests(evidence, twins=twins),
        *_files(evidence),
    ]


def _turns(evidence: Evidence) -> Iterator[str]:
    if evidence.state.turn is not None:
        yield f"turn {evidence.state.turn.turn} did not end"
    outcomes = evidence.outcomes()
    for intent in [*evidence.intents("model"), *evidence.intents("tool")]:
        if intent.call not in outcomes:
            yield f"call {intent.call} was left open"


def _finished(evidence: Evidence) -> list[tuple[int, int]]:
    """Request and call of each answer in the log."""
    outcomes = evidence.outcomes()
    return [
        (_request_of(evidence.value(outcome.result)), intent.call)
        for intent in evidence.intents("model")
        if (outcome := outcomes.get(intent.call)) is not None and outcome.status == "ok"
    ]


def _model_calls(evidence: Evidence, lost_answers: int, *, twins: bool) -> Iterator[str]:
    finished = _finished(evidence)
    by_number = {request.n: request for request in evidence.requests}
    for number, count in Counter(number for number, _ in finished).items():
        if count > 1:
            yield f"{count} calls have the answer to request {number}"
    for number, call in finished:
        answer = by_number.get(number)
        if answer is None:
            yield f"the answer of call {call} is of no request of this session"
            continue
        later = [one.n for one in evidence.requests if one.n > number and _same(one, answer)]
        if later and not twins:
            yield f"call {call} was finished by request {number} and went upstream again as {later}"
    lost = [request for request in evidence.requests if request.n not in dict(finished)]
    if len(lost) > lost_answers:
        told = [(one.conversation, one.step, one.outcome) for one in lost]
        yield f"{len(lost)} requests came to nothing, {lost_answers} can be explained: {told}"


def _same(one: RequestRecord, other: RequestRecord) -> bool:
    return (one.conversation, one.step) == (other.conversation, other.step)


def _request_of(answer: Any) -> int:
    found = _ANSWER_ID.search(msgspec.json.encode(answer).decode())
    return int(found[2]) if found else -1


def _tool_calls(evidence: Evidence) -> Iterator[str]:
    outcomes = evidence.outcomes()
    effects: dict[str, list[Effect]] = defaultdict(list)
    for effect in evidence.effects:
        effects[effect.mark].append(effect)
    for intent in evidence.intents("tool"):
        mark = evidence.mark(intent)
        if mark is None:
            continue
        done, outcome = effects[mark], outcomes.get(intent.call)
        if intent.policy in {"never", "verify"} and len(done) > 1:
            yield f"the {intent.policy} call {intent.call} ({intent.name} {mark}) took effect {len(done)} times"
        if intent.policy == "keyed" and len({effect.key for effect in done}) > 1:
            yield f"the keyed call {intent.call} took effect under more than one key"
        if outcome is not None and outcome.status == "ok" and not done:
            yield f"call {intent.call} ({intent.name} {mark}) is said to be done, and nothing happened"
        if outcome is not None and outcome.status == "interrupted" and intent.policy != "safe" and done:
            yield f"call {intent.call} ({intent.name} {mark}) is said not to have begun, and it took effect"


def _mark(arguments: Any) -> str | None:
    named = cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {}
    if "mark" in named:
        return str(named["mark"])
    found = (_MARK.search(text) for text in _texts(named))
    return next((one[1] for one in found if one is not None), None)


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in cast("dict[str, object]", value).values():
                yield from _texts(inner)
        case list():
            for inner in cast("list[object]", value):
                yield from _texts(inner)
        case _:
            pass


def _requests(evidence: Evidence, *, twins: bool) -> Iterator[str]:
    dialect = evidence.subject.dialect
    lanes: dict[bytes, list[Prompt]] = defaultdict(list)
    for request in evidence.requests:
        body = evidence.bodies.get(request.n)
        if body is None:
            continue
        text = body.decode()
        words = evidence.subject.foreign_words
        yield from (f"request {request.n} says {word!r}" for word in words if word in text)
        yield from (f"request {request.n} holds {fault}" for fault in pairs(dialect, body))
        meant = understood(dialect, request.n, body)
        lanes[msgspec.json.encode([_opening(meant), _has_tools(meant)])].append(meant)
    asides = _asides(evidence)
    # An unfinished request whose intent did not land may have told the newest result in other words.
    finished = dict(_finished(evidence))
    for asked in lanes.values():
        first = asked[0]
        yield from (
            f"request {one.n} has another system prompt or other tools than request {first.n}"
            for one in asked
            if one.frame != first.frame
        )
        for one, later in pairwise(one for one in asked if one.n in finished):
            summed_up = any(one.n < aside < later.n for aside in asides)
            if not twins and not summed_up and not _begins(later.items, one.items):
                yield f"request {later.n} does not go on where request {one.n} stopped"


def _opening(asked: Prompt) -> Any:
    """What tells a conversation from others: its first word that is not the system's, which many may share."""
    said = (item for item in asked.items if item.get("role") != "system")
    return next(said, asked.items[0])


def _has_tools(asked: Prompt) -> bool:
    """What asks for a summary in the words of the conversation offers none."""
    frame = cast("Mapping[str, object]", asked.frame)
    return bool(frame.get("tools"))


def _asides(evidence: Evidence) -> list[int]:
    """Requests beside the conversation, after which it goes on from a summary."""
    lanes = {intent.call: intent.lane for intent in evidence.intents("model")}
    return [number for number, call in _finished(evidence) if lanes[call].startswith(SIDE)]


def _begins(longer: Sequence[Any], shorter: Sequence[Any]) -> bool:
    if not shorter:
        return True
    *whole, last = shorter
    if list(longer[: len(whole)]) != whole or len(longer) < len(shorter):
        return False
    other = longer[len(whole)]
    if other == last:
        return True
    # A prompt or a steer may join the last message of the user.
    said, told = _content(last), _content(other)
    return bool(said) and other.get("role") == last.get("role") and told[: len(said)] == said


def _content(item: Any) -> list[object]:
    content = item.get("content")
    return cast("list[object]", content) if isinstance(content, list) else []


def moved_prefixes(evidence: Evidence) -> Iterator[str]:
    """Every request whose prompt does not begin, byte for byte, with all of the one before it in its lane.

    The provider's cache of the prompt holds only if it does.
    """
    lanes: dict[bytes, list[Prompt]] = defaultdict(list)
    for n, body in sorted(evidence.bodies.items()):
        asked = prompt_of(evidence.subject.dialect, n, body)
        lanes[msgspec.json.encode(_opening(asked))].append(asked)
    for asked in lanes.values():
        for one, later in pairwise(asked):
            if later.frame != one.frame:
                yield f"request {later.n} has another frame than request {one.n}"
            if list(later.items[: len(one.items)]) != list(one.items):
                yield f"request {later.n} does not begin with the whole of request {one.n}"


def _files(evidence: Evidence) -> Iterator[str]:
    """What is wrong with the harness's files, as another machine would find them."""
    with TemporaryDirectory() as directory:
        home = Path(directory)
        for name, file in evidence.state.files.items():
            lines: list[str] = []
            for piece, count in zip(file.pieces, file.counts, strict=True):
                lines += evidence.value(piece)[:count]
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield from evidence.subject.broken_files(home, cut=evidence.state.cut is not None)


def processes_of(home: Path, place: Path | None = None) -> list[int]:
    """Living processes with this HOME in their environment or on their command line, or that are in this place."""
    needle = str(home).encode()
    found: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - processes end while they are listed
        if name.isdigit() and int(name) != os.getpid():
            try:
                text = (
                    Path("/proc", name, "environ").read_bytes() + Path("/proc", name, "cmdline").read_bytes()
                )
                there = place is not None and Path("/proc", name, "cwd").readlink().is_relative_to(place)
            except OSError:
                continue
            if there or needle in text:
                found.append(int(name))
    return found


async def left_behind(home: Path, place: Path | None = None) -> list[int]:
    """Processes that are still there once everything had time to end."""
    with anyio.move_on_after(_GONE_S):
        while processes_of(home, place):  # noqa: ASYNC110 - processes tell nobody when they end
            await anyio.sleep(0.02)
    return processes_of(home, place)
