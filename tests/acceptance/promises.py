"""What must hold of every turn, however often its workers were killed; each broken promise as a sentence."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec

from outlast.codec import unsqueeze
from outlast.fold import SessionState, fold, records_of
from outlast.gateway.anthropic_requests import understand
from outlast.records import AnyRecord, CallIntent, CallOutcome, Payload
from outlast.testing.models import RequestRecord
from outlast.world import Commit, World
from tests.acceptance.shop import Effect

FOREIGN_WORDS = ("[[outlast:", "No response requested.", "Continue from where you left off.")
"""What a resume may add to a conversation; nothing of it may reach the provider."""
_ANSWER_ID = re.compile(r"msg_.*_(\d+)_(\d+)_[0-9a-f]{8}")
_GONE_S = 15.0


@dataclass(frozen=True)
class Evidence:
    """Everything that was counted: at the provider's door, outside, in the log."""

    session: str
    commits: Sequence[Commit]
    records: Sequence[AnyRecord]
    state: SessionState
    blobs: Mapping[str, bytes]
    effects: Sequence[Effect]
    requests: Sequence[RequestRecord]
    """Model requests of this session's conversations."""
    bodies: Mapping[int, bytes]

    def value(self, payload: Payload) -> Any:
        text = unsqueeze(self.blobs[payload.ref]) if payload.ref else bytes(payload.json)
        return msgspec.json.decode(text) if text else None

    def intents(self, kind: str) -> list[CallIntent]:
        return [one for one in self.records if isinstance(one, CallIntent) and one.kind == kind]

    def outcomes(self) -> dict[int, CallOutcome]:
        return {one.call: one for one in self.records if isinstance(one, CallOutcome)}


async def gather(
    world: World,
    session: str,
    commits: Sequence[Commit],
    effects: Sequence[Effect],
    requests: Sequence[RequestRecord],
    bodies: Mapping[int, bytes],
) -> Evidence:
    """Read what the checks need."""
    records = [record for commit in commits for record in records_of(session, commit)]
    refs = sorted({ref for commit in commits for ref in commit.header.refs})
    blobs = await world.get_many(session, refs) if refs else dict[str, bytes]()
    return Evidence(session, commits, records, fold(session, commits), blobs, effects, requests, bodies)


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
        *_transcripts(evidence),
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
    found = _ANSWER_ID.fullmatch(str(answer["id"]))
    return int(found[2]) if found else -1


def _tool_calls(evidence: Evidence) -> Iterator[str]:
    outcomes = evidence.outcomes()
    effects: dict[str, list[Effect]] = defaultdict(list)
    for effect in evidence.effects:
        effects[effect.mark].append(effect)
    for intent in evidence.intents("tool"):
        mark = _mark(evidence.value(intent.arguments))
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
    if "mark" in arguments:
        return str(arguments["mark"])
    found = re.search(r'"mark":"([^"]+)"', str(arguments.get("command", arguments.get("content", ""))))
    return found[1] if found else None


def _requests(evidence: Evidence, *, twins: bool) -> Iterator[str]:
    lanes: dict[bytes, list[tuple[int, Sequence[Any], Any]]] = defaultdict(list)
    for request in evidence.requests:
        body = evidence.bodies.get(request.n)
        if body is None:
            continue
        text = body.decode()
        yield from (f"request {request.n} says {word!r}" for word in FOREIGN_WORDS if word in text)
        decoded = msgspec.json.decode(body, type=dict[str, Any])
        yield from _pairs(f"request {request.n}", _blocks(decoded["messages"]))
        understood = understand(decoded)
        key = msgspec.json.encode(understood.messages[0]["content"])
        lanes[key].append((request.n, understood.messages, understood.frame))
    # An unfinished request whose intent did not land may have told the newest result in other words.
    finished = dict(_finished(evidence))
    for asked in lanes.values():
        frame = asked[0][2]
        yield from (
            f"request {n} has another system prompt or other tools than request {asked[0][0]}"
            for n, _, other in asked
            if other != frame
        )
        for (n, messages, _), (later, more, _) in pairwise(one for one in asked if one[0] in finished):
            if not twins and not _begins(more, messages):
                yield f"request {later} does not go on where request {n} stopped"


def _begins(longer: Sequence[Any], shorter: Sequence[Any]) -> bool:
    if not shorter:
        return True
    *whole, last = shorter
    if list(longer[: len(whole)]) != whole or len(longer) < len(shorter):
        return False
    other = longer[len(whole)]
    # A prompt or a steer may join the last message of the user.
    return other["role"] == last["role"] and other["content"][: len(last["content"])] == last["content"]


def _blocks(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        block
        for message in messages
        if isinstance(message["content"], list)
        for block in cast("list[dict[str, Any]]", message["content"])
    ]


def _pairs(where: str, blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    uses = Counter(block["id"] for block in blocks if block.get("type") == "tool_use")
    results = Counter(block["tool_use_id"] for block in blocks if block.get("type") == "tool_result")
    for use, count in (uses | results).items():
        if (uses[use], results[use]) != (1, 1):
            yield f"{where} holds {uses[use]} calls and {results[use]} results of {use} ({count})"


def _transcripts(evidence: Evidence) -> Iterator[str]:
    for name, file in evidence.state.files.items():
        if not name.endswith(".jsonl"):
            continue
        lines: list[str] = []
        for piece, count in zip(file.pieces, file.counts, strict=True):
            lines += evidence.value(piece)[:count]
        # A turn that was cut short gets its last results when the next one begins.
        whole = "/subagents/" not in name and evidence.state.cut is None
        yield from transcript_faults(lines, whole=whole)


def transcript_faults(lines: Sequence[str], *, whole: bool = True) -> Iterator[str]:
    """What is wrong with a transcript.

    Args:
        whole: no call may lack its result; a sub-agent's may, where the sub-agent was cut off and began anew.
    """
    seen: set[str] = set()
    blocks: list[Mapping[str, Any]] = []
    for number, line in enumerate(lines, 1):
        record: dict[str, Any] = msgspec.json.decode(line)
        parent, uuid = record.get("parentUuid"), record.get("uuid")
        if parent is not None and parent not in seen:
            yield f"line {number} of the transcript hangs below {parent}, which is not there"
        if uuid is not None:
            if uuid in seen:
                yield f"line {number} of the transcript has the UUID of an earlier one"
            seen.add(uuid)
        message: dict[str, Any] = record.get("message") or {}
        blocks += _blocks([message] if "content" in message else [])
    if whole:
        yield from _pairs("the transcript", blocks)


def processes_of(home: Path) -> list[int]:
    """Living processes with this HOME in their environment or on their command line."""
    needle = str(home).encode()
    found: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - processes end while they are listed
        if name.isdigit() and int(name) != os.getpid():
            try:
                text = (
                    Path("/proc", name, "environ").read_bytes() + Path("/proc", name, "cmdline").read_bytes()
                )
            except OSError:
                continue
            if needle in text:
                found.append(int(name))
    return found


async def left_behind(home: Path) -> list[int]:
    """Processes that are still there once everything had time to end."""
    with anyio.move_on_after(_GONE_S):
        while processes_of(home):  # noqa: ASYNC110 - processes tell nobody when they end
            await anyio.sleep(0.02)
    return processes_of(home)
