"""Pure: the spans of a settled turn.

One trace for each turn, whatever workers died on the way:

* `invoke_agent AGENT` — the turn, beneath the span of whoever asked for it
* `attempt N` — what one worker did of it
* `chat MODEL`, `execute_tool TOOL` — one try of a call, beneath the attempt that made it; a call that was tried again
  by another attempt has a span in each, and the later one is linked to the earlier
* `invoke_agent LANE` — what a sub-agent did in one attempt, beneath the tool call that began it
* `wait NAME` — a wait, beneath the turn: it outlives attempts. The turn of a session that it spawned stands beneath it

What came from the log in a later attempt has no span there: nothing was asked. The attempt says how much it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from outlast.calls import MAIN
from outlast.records import Usage
from outlast.tally import tokens
from outlast.telemetry import names
from outlast.telemetry.reading import CallDetail, Story
from outlast.timeline import AttemptBar, CallBar, Lane, Try
from outlast.tracing import SpanRef

Value: TypeAlias = "str | int | float | bool | Sequence[str]"
Kind: TypeAlias = Literal["internal", "client"]

LOST: Final = "worker_lost"
"""`error.type` of what ran when its worker was lost."""


@dataclass(frozen=True, slots=True)
class Span:
    """One span, as whoever exports it needs it."""

    name: str
    trace: int
    id: int
    parent: SpanRef | None
    began_s: float
    ended_s: float
    attributes: Mapping[str, Value]
    kind: Kind = "internal"
    error: str = ""
    """Its `error.type`; empty: it went well, or nobody knows."""
    links: Sequence[SpanRef] = ()
    call: int = 0
    """Of whose arguments and results its content is; 0 of none."""
    last: bool = True
    """The try of the call that settled it, or the last before."""
    usage: Usage | None = None
    """What the provider reported for it."""


@dataclass
class _Making:
    story: Story
    numbers: dict[int, int] = field(default_factory=dict[int, int])
    """By fence: which attempt at the turn it is."""
    ends: dict[int, AttemptBar] = field(default_factory=dict[int, AttemptBar])
    begun: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """By (call, fence): the span of its newest try there."""

    def __post_init__(self) -> None:
        settled = self.story.settled
        self.ids = self.story.ids
        self.root = self.ids.within(self.ids.root)
        self.common: Mapping[str, Value] = {
            names.CONVERSATION: settled.session,
            names.TENANT: settled.tenant,
            names.SESSION: settled.session,
            names.TURN: settled.due.turn,
        }

    @property
    def trace(self) -> int:
        return self.root.trace

    def ref(self, span: int) -> SpanRef:
        return replace(self.root, span=span)


def spans_of(story: Story) -> list[Span]:
    """Every span of the turn, parents before their children."""
    making = _Making(story)
    for number, attempt in enumerate(story.bar.attempts, 1):
        making.numbers[attempt.attempt] = number
        making.ends[attempt.attempt] = attempt
    spans = [_turn(making), *_attempts(making)]
    for lane in sorted(story.bar.lanes, key=lambda lane: lane.begun_by):
        spans += _lane(making, lane)
    return spans


def _turn(making: _Making) -> Span:
    story, bar = making.story, making.story.bar
    opened = story.settled.opened
    attempts = story.bar.attempts
    lost = sum(attempt.ended == "lost" for attempt in attempts)
    attributes: dict[str, Value] = {
        names.OPERATION: "invoke_agent",
        names.PROVIDER: names.SCOPE,
        names.AGENT_NAME: opened.agent,
        names.AGENT_ID: opened.agent,
        **making.common,
        names.TURN_STATUS: bar.status,
        names.ATTEMPTS: len(attempts),
        names.ATTEMPTS_LOST: lost,
        names.TURN_COST: bar.usage.cost_usd,
    }
    version = next((one.versions[opened.agent] for one in attempts if opened.agent in one.versions), "")
    if version:
        attributes[names.AGENT_VERSION] = version
    if story.forked is not None:
        attributes[names.FORKED_FROM] = story.forked.source
    error = "" if bar.status == "done" else bar.status
    name = f"invoke_agent {opened.agent}"
    ids = making.ids
    return Span(
        name, making.trace, ids.root, ids.parent, story.from_s, bar.settled_s, attributes, error=error
    )


def _attempts(making: _Making) -> Iterator[Span]:
    story = making.story
    for attempt in story.bar.attempts:
        if attempt.last_s < story.from_s:
            continue  # of the source of a fork
        number, saved = making.numbers[attempt.attempt], attempt.saved
        attributes: dict[str, Value] = {
            **making.common,
            names.ATTEMPT: number,
            names.FENCE: attempt.attempt,
            names.WORKER: attempt.worker,
            names.ENDED: attempt.ended,
            names.SERVED_CALLS: saved.model_calls + saved.tool_calls,
            names.SERVED_TOKENS: tokens(saved.usage),
            names.SERVED_COST: saved.usage.cost_usd,
        }
        if attempt.ended == "lost":
            attributes[names.UNNOTICED] = attempt.unnoticed_s
        yield Span(
            f"attempt {number}",
            making.trace,
            making.ids.attempt(attempt.attempt),
            making.root,
            max(attempt.began_s, story.from_s),
            max(attempt.last_s, attempt.began_s, story.from_s),
            attributes,
            error=_ending(attempt),
        )


def _ending(attempt: AttemptBar) -> str:
    match attempt.ended:
        case "lost":
            return LOST
        case "failed" | "provider":
            return attempt.ended
        case _:
            return ""


def _lane(making: _Making, lane: Lane) -> Iterator[Span]:
    """The calls of a lane; of a sub-agent's, first what stands for the sub-agent in each attempt."""
    waits = [call for call in lane.calls if call.kind == "wait"]
    tried = [
        span for call in lane.calls if call.kind in {"model", "tool"} for span in _tries(making, call, lane)
    ]
    if lane.begun_by:
        for attempt in making.story.bar.attempts:
            within = [span for span in tried if span.attributes[names.FENCE] == attempt.attempt]
            if within:
                yield _sub_agent(making, lane, attempt.attempt, within)
    yield from tried
    for call in waits:
        if call.opened_s >= making.story.from_s:
            yield _wait(making, call, lane)


def _sub_agent(making: _Making, lane: Lane, fence: int, within: Sequence[Span]) -> Span:
    ids = making.ids
    begun = making.begun.get((lane.begun_by, fence), ids.attempt(fence))
    attributes: dict[str, Value] = {
        names.OPERATION: "invoke_agent",
        names.PROVIDER: names.SCOPE,
        names.AGENT_NAME: lane.name,
        **making.common,
        names.ATTEMPT: making.numbers[fence],
        names.FENCE: fence,
        names.LANE: lane.name,
    }
    began_s = min(span.began_s for span in within)
    ended_s = max(span.ended_s for span in within)
    name = f"invoke_agent {lane.name}"
    return Span(
        name, making.trace, ids.lane(lane.name, fence), making.ref(begun), began_s, ended_s, attributes
    )


def _tries(making: _Making, call: CallBar, lane: Lane) -> Iterator[Span]:
    """A span for each time that the call was made; of one that never began, one for how it ended."""
    story, detail = making.story, making.story.calls[call.call]
    tries = call.tries or (Try(call.settled_in or call.opened_in, call.settled_s or call.opened_s),)
    before: dict[int, int] = {}
    earlier: SpanRef | None = None
    for at, one in enumerate(tries):
        place = before.get(one.attempt, 0)
        before[one.attempt] = place + 1
        if one.began_s < story.from_s:
            continue  # of the source of a fork
        last = at == len(tries) - 1
        span = making.ids.call(call.call, one.attempt, place)
        making.begun[call.call, one.attempt] = span
        usage = _usage(call, detail, at, last=last)
        above = making.ids.lane(lane.name, one.attempt) if lane.begun_by else making.ids.attempt(one.attempt)
        made = Span(
            f"chat {call.name}" if call.kind == "model" else f"execute_tool {call.name}",
            making.trace,
            span,
            making.ref(above),
            one.began_s,
            _end(making, call, at, tries),
            {**_about(making, call, lane), **_of_try(making, call, one, last=last), **_used(usage)},
            kind="client" if call.kind == "model" else "internal",
            error=_error(making, call, one, last=last),
            links=() if earlier is None else (earlier,),
            call=call.call,
            last=last,
            usage=usage,
        )
        yield made
        earlier = making.ref(span)


def _end(making: _Making, call: CallBar, at: int, tries: Sequence[Try]) -> float:
    """A try ends with its call, its attempt or the next try, whichever comes first."""
    one = tries[at]
    ends = [call.settled_s or making.story.bar.settled_s]
    if at + 1 < len(tries):
        ends.append(tries[at + 1].began_s)
    if one.attempt in making.ends and call.settled_in != one.attempt:
        ends.append(making.ends[one.attempt].last_s)
    return max(one.began_s, min(ends))


def _usage(call: CallBar, detail: CallDetail, at: int, *, last: bool) -> Usage | None:
    """What was billed for one try: whoever retracts an answer begins the next."""
    void = detail.void[at] if call.kind == "model" and at < len(detail.void) else None
    found = call.usage if last else None
    return found if void is None else void if found is None else void + found


def _error(making: _Making, call: CallBar, one: Try, *, last: bool) -> str:
    attempt = making.ends.get(one.attempt)
    if attempt is not None and attempt.ended == "lost" and call.settled_in != one.attempt:
        return LOST
    if one.void or not last:
        return "retracted"
    return "" if call.status == "ok" else call.status


def _about(making: _Making, call: CallBar, lane: Lane) -> dict[str, Value]:
    detail = making.story.calls[call.call]
    attributes: dict[str, Value] = {**making.common, names.CALL: call.call, names.POLICY: call.policy}
    if lane.name != MAIN:
        attributes[names.LANE] = lane.name
    if call.kind == "model":
        attributes |= {names.OPERATION: "chat", names.PROVIDER: provider_of(call.name)}
        attributes[names.REQUEST_MODEL] = call.name
    else:
        attributes |= {names.OPERATION: "execute_tool", names.TOOL_NAME: call.name}
        attributes |= {
            names.TOOL_TYPE: "function",
            names.TOOL_CALL: detail.intent.harness_id or str(call.call),
        }
    if call.compensates:
        attributes[names.COMPENSATES] = call.compensates
    return attributes


def _of_try(making: _Making, call: CallBar, one: Try, *, last: bool) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        names.ATTEMPT: making.numbers.get(one.attempt, 0),
        names.FENCE: one.attempt,
        names.STATUS: call.status,
        names.RETRACTED: one.void,
    }
    if last and call.status == "in_doubt":
        attributes[names.IN_DOUBT] = True
    if last and call.verdicts:
        attributes[names.VERDICT] = call.verdicts[-1]
    if last and call.decisions:
        attributes[names.DECISION] = call.decisions[-1]
    return attributes


def _used(usage: Usage | None) -> dict[str, Value]:
    if usage is None:
        return {}
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return {
        names.INPUT_TOKENS: usage.input_tokens + read + written,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ: read,
        names.CACHE_CREATION: written,
        names.CACHE_WRITE: written,
        names.COST: usage.cost_usd,
    }


def _wait(making: _Making, call: CallBar, lane: Lane) -> Span:
    story = making.story
    attributes: dict[str, Value] = {**making.common, names.CALL: call.call, names.STATUS: call.status}
    if lane.name != MAIN:
        attributes[names.LANE] = lane.name
    if call.child:
        attributes[names.CHILD] = call.child
    return Span(
        f"wait {call.name}",
        making.trace,
        making.ids.call(call.call, call.opened_in),
        making.root,
        call.opened_s,
        call.settled_s or story.bar.settled_s,
        attributes,
        error="" if call.status == "ok" else call.status,
        call=call.call,
    )


_PROVIDERS: Final = (
    ("claude", "anthropic"),
    ("gemini", "gcp.gemini"),
    ("mistral", "mistral_ai"),
    ("grok", "x_ai"),
)


def provider_of(model: str) -> str:
    """Whose model it is, by its name: the conventions want one, and a gateway in between hides the rest."""
    short = model.rsplit("/", 1)[-1].rsplit("anthropic.", 1)[-1].lower()
    known = next((provider for prefix, provider in _PROVIDERS if short.startswith(prefix)), "")
    if known:
        return known
    return "openai" if short.startswith(("gpt", "o1", "o3", "o4", "codex", "chatgpt")) else "unknown"


def with_attributes(span: Span, more: Mapping[str, Value]) -> Span:
    """The span with these besides."""
    return replace(span, attributes={**span.attributes, **more}) if more else span
