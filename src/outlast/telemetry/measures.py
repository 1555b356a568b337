"""Pure: what is counted of a settled turn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from outlast.telemetry import names
from outlast.telemetry.reading import Story
from outlast.telemetry.spans import LOST, Span

COUNTERS: Final[Mapping[str, str]] = {
    names.LOST: "Attempts that ended without a word: their worker was killed, or its machine.",
    names.RECOVERIES: "Attempts that went on from the log where another had ended before its turn.",
    names.DOUBTS: "Calls of which nobody can say whether they took effect.",
}
HISTOGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    names.CLIENT_DURATION: ("s", "How long a model took to answer."),
    names.CLIENT_TOKENS: ("{token}", "Tokens of a model call, as its provider bills them."),
    names.AGENT_DURATION: ("s", "From the beginning of a turn to its end, waits included."),
    names.TOOL_DURATION: ("s", "How long a tool ran."),
}
"""Unit and description."""
_CUT_OFF: Final = frozenset({"lost", "failed", "provider", "handed_over"})


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of one instrument."""

    name: str
    value: float
    attributes: Mapping[str, str]


def measures_of(story: Story, spans: Sequence[Span]) -> Iterator[Measure]:
    """What is counted of a turn whose spans these are. How long something took that was lost nobody knows."""
    bar, agent = story.bar, {names.AGENT_NAME: story.settled.opened.agent}
    yield Measure(
        names.AGENT_DURATION,
        spans[0].ended_s - spans[0].began_s,
        _only(spans[0], names.OPERATION, names.PROVIDER, names.AGENT_NAME),
    )
    for span in spans[1:]:
        yield from _of_call(span)
    attempts = [attempt for attempt in story.bar.attempts if attempt.last_s >= story.from_s]
    cut_off = [attempt for attempt in attempts[:-1] if attempt.ended in _CUT_OFF]
    doubts = sum(call.status == "in_doubt" for lane in bar.lanes for call in lane.calls)
    counted = {
        names.LOST: sum(attempt.ended == "lost" for attempt in attempts),
        names.RECOVERIES: len(cut_off),
        names.DOUBTS: doubts,
    }
    yield from (Measure(name, count, agent) for name, count in counted.items() if count)


def _of_call(span: Span) -> Iterator[Measure]:
    took_s = span.ended_s - span.began_s
    match span.attributes.get(names.OPERATION):
        case "chat":
            about = _only(span, names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL)
            if span.error != LOST:
                yield Measure(names.CLIENT_DURATION, took_s, about)
            about.pop(names.ERROR, None)
            for kind, key in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
                count = span.attributes.get(key)
                if isinstance(count, int) and count:
                    yield Measure(names.CLIENT_TOKENS, count, {**about, names.TOKEN_TYPE: kind})
        case "execute_tool" if span.error != LOST:
            yield Measure(names.TOOL_DURATION, took_s, _only(span, names.OPERATION, names.TOOL_NAME))
        case _:
            pass


def _only(span: Span, *keys: str) -> dict[str, str]:
    found = {key: str(span.attributes[key]) for key in keys if span.attributes.get(key)}
    return {**found, names.ERROR: span.error} if span.error else found
