"""Bringing a rollout up to what the log knows.

What stands there is kept as far as it is what the log says; from the first record on that is not, everything is written
anew. Every line that stays keeps its place, so that positions in the mirror go on to mean what they meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from outlast.adapters.codex.rollout import (
    EVENT,
    ITEM,
    SEARCHED,
    as_line,
    boundary,
    dangling,
    event_of,
    is_answer,
    is_aside,
    is_call,
    is_output,
    is_said,
    item_of,
    message,
    output_of,
    prompt_of,
    text_of,
    usage_of,
    words_of,
)
from outlast.adapters.shapes import Json, as_objects

Outputs: TypeAlias = Mapping[str, object]
"""What the model is told of each call that has ended, by its id: a text, or a list of parts."""


_ABORTED: Final = "turn_aborted"
_COUNT: Final = "token_count"


@dataclass(frozen=True, slots=True)
class Steer:
    """What a person said while the turn ran, as a request carried it."""

    text: str
    id: str
    """The id under which Codex was told it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished model call of the conversation, from the log."""

    items: Sequence[Mapping[str, Any]]
    steers: Sequence[Steer] = ()
    """Steers that its request was the first to carry."""
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """As the provider gave it: Codex decides from the newest when to compact."""

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """What it asks the harness for."""
        ran = {item.get("call_id") for item in self.items if is_output(item)}
        return [item for item in self.items if is_call(item) and item.get("call_id") not in ran]


@dataclass(frozen=True, slots=True)
class Known:
    """What the log knows of a turn."""

    prompt: str
    """The id of its prompt."""
    answers: Sequence[Answer]
    """In order; of a turn that was compacted, those after the last compaction that stands in the rollout."""
    outputs: Outputs
    steers: Sequence[Steer] = ()
    """Steers that the request to be sent next was the first to carry."""
    again: bool = False
    """The newest answer is to be asked for again, so that the harness runs those of its calls that may run."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What to do to a rollout before Codex reads it."""

    keep: int
    """Lines to keep of the old ones."""
    lines: Sequence[str] = field(default=())
    """Lines to append."""


class Unanswered(ValueError):
    """A tool call has no output in the rollout, none was given, and it is not asked for again."""


@dataclass(frozen=True, slots=True)
class _Output:
    """The output of a call."""

    call: Mapping[str, Any]
    output: object


_Thing: TypeAlias = "Mapping[str, Any] | _Output | Steer"
"""An item of an answer, the output of a call, or what a person said."""


def repair(records: Sequence[Json], known: Known, *, at: str) -> Repair:
    """Bring the newest turn of a rollout up to what the log knows.

    Args:
        at: time stamp of new records.

    Raises:
        Unanswered: a call of an answer that stays has no output.
    """
    begins = max(_after(records, known.prompt), boundary(records))
    keep, missing = _agreeing(records, begins, _wanted(known))
    added = [_as_item(_item(thing)) for thing in missing]
    return _repaired(records[:keep], [*added, *_used(records[begins:keep], known, counted=not missing)], at)


def closed(records: Sequence[Json], outputs: Outputs, *, otherwise: str, at: str) -> Repair:
    """Make a turn that was cut short ready for another prompt: each of its calls gets an output.

    What was begun of a turn whose prompt did not come to stand there is cut off.

    Args:
        outputs: of the calls that have ended.
        otherwise: what is said of every other call.
        at: time stamp of new records.
    """
    records = records[: _without_beginning(records)]
    added = [
        _as_item(output_of(call, outputs.get(str(call["call_id"]), otherwise))) for call in dangling(records)
    ]
    return _repaired(records, added, at)


def _wanted(known: Known) -> list[list[_Thing]]:
    """What must stand behind the prompt, in order; things that stand together may come in any order."""
    answers = list(known.answers)
    steers = answers.pop().steers if known.again and answers else known.steers
    wanted: list[list[_Thing]] = []
    for answer in answers:
        wanted += _singly(answer.steers)
        wanted += _singly(answer.items)
        wanted.append([_Output(call, _output(call, known.outputs)) for call in answer.calls])
    wanted += _singly(steers)
    return [things for things in wanted if things]


def _singly(things: Sequence[_Thing]) -> list[list[_Thing]]:
    return [[thing] for thing in things]


def _output(call: Mapping[str, Any], outputs: Outputs) -> object:
    call_id = str(call["call_id"])
    if call_id not in outputs:
        raise Unanswered(call_id)
    return outputs[call_id]


def _agreeing(
    records: Sequence[Json], begins: int, wanted: Sequence[Sequence[_Thing]]
) -> tuple[int, list[_Thing]]:
    """How many records stay, and what of all that is wanted is missing then."""
    left = [list(things) for things in wanted]
    keep = begins
    for at, record in enumerate(records[begins:], begins):
        item = item_of(record)
        if event_of(record) == _ABORTED or text_of(item).lstrip().startswith(f"<{_ABORTED}>"):
            break
        if item and not is_aside(item):
            found = next((thing for thing in (left[0] if left else ()) if _is(thing, item)), None)
            if found is None:
                break
            left[0].remove(found)
            left = left if left[0] else left[1:]
        keep = at + 1
    return keep, [thing for things in left for thing in things]


def _is(thing: _Thing, item: Json) -> bool:
    if isinstance(thing, Steer):
        return item.get("role") == "user" and text_of(item).strip() == thing.text.strip()
    if isinstance(thing, _Output):
        same = item.get("call_id") == thing.call.get("call_id")
        told = item.get("type") == SEARCHED or words_of(item.get("output")) == words_of(thing.output)
        return same and is_output(item) and told
    return is_answer(item) and _sign(item) == _sign(thing)


def _sign(item: Mapping[str, Any]) -> tuple[object, ...]:
    """What tells an item of an answer from another of the same conversation."""
    kind = item.get("type")
    if item.get("call_id"):
        return kind, item["call_id"]
    if kind == "message":
        return kind, text_of(item)
    if kind == "reasoning":
        summary = "".join(str(part.get("text", "")) for part in as_objects(item.get("summary")))
        return kind, item.get("encrypted_content"), summary
    return kind, item.get("id")


def _item(thing: _Thing) -> Json:
    match thing:
        case Steer(text):
            return message(text)
        case _Output(call, output):
            return output_of(call, output)
        case _:
            return dict(thing)


def _after(records: Sequence[Json], prompt: str) -> int:
    """Where the part behind the prompt begins."""
    return next((at + 1 for at, record in enumerate(records) if is_said(record, prompt)), len(records))


def _without_beginning(records: Sequence[Json]) -> int:
    """Where a turn was begun at the end without anything being said in it; else the end."""
    for at in range(len(records) - 1, -1, -1):
        item = item_of(records[at])
        if prompt_of(records[at]) is not None or is_answer(item) or is_output(item):
            break
        if event_of(records[at]) == "task_started":
            return at
    return len(records)


def _used(kept: Sequence[Json], known: Known, *, counted: bool) -> list[Json]:
    """What the newest answer has used, where that does not stand behind it."""
    answers = known.answers[:-1] if known.again else known.answers
    if not answers or not answers[-1].usage:
        return []
    last = max((at for at, record in enumerate(kept) if is_answer(item_of(record))), default=-1)
    if counted and any(event_of(record) == _COUNT for record in kept[last + 1 :]):
        return []
    told = usage_of(answers[-1].usage)
    info = {"total_token_usage": told, "last_token_usage": told}
    return [{"type": EVENT, "payload": {"type": _COUNT, "info": info, "rate_limits": None}}]


def _as_item(item: Mapping[str, Any]) -> Json:
    return {"type": ITEM, "payload": item}


def _repaired(kept: Sequence[Json], added: Sequence[Mapping[str, Any]], at: str) -> Repair:
    first = int(kept[-1].get("ordinal", len(kept) - 1)) + 1 if kept else 0
    lines = [
        as_line({"timestamp": at, "ordinal": number, **record}) for number, record in enumerate(added, first)
    ]
    return Repair(len(kept), lines)
