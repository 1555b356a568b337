"""What stands in a rollout, the file in which Codex keeps a session: JSON, one record a line.

A record is `{timestamp, ordinal, type, payload}`. Those of type `response_item` are the conversation, item by item, as
requests carry it; the others tell of turns, settings and usage. The facts behind this, and the version that they were
found on, are in `docs/internals/codex.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from outlast.adapters.shapes import Json, as_object, as_objects

META: Final = "session_meta"
ITEM: Final = "response_item"
EVENT: Final = "event_msg"
COMPACTED: Final = "compacted"
SEARCHED: Final = "tool_search_output"

_OUTPUT: Final = "_output"
_CALL: Final = "_call"
_CONTEXT: Final = ("<environment_context>", "<turn_aborted>")
"""How messages of the user begin that Codex itself puts in."""


def parse(lines: Sequence[str]) -> list[Json]:
    """The records of `lines` up to the first that is none: a torn end, or what follows damage."""
    records: list[Json] = []
    for line in lines:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError):
            break
        if not isinstance(record, dict):
            break
        records.append(cast("Json", record))
    return records


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rollout, read once: the lines as they stand in the file, and the records of all that are some."""

    lines: Sequence[str]
    records: Sequence[Json]

    @classmethod
    def read(cls, lines: Sequence[str]) -> "Rollout":
        return cls(lines, parse(lines))

    def changed(self, keep: int, added: Sequence[str]) -> "Rollout":
        """The first `keep` of its lines, and others behind them."""
        if keep == len(self.lines) and not added:
            return self
        return Rollout([*self.lines[:keep], *added], [*self.records[:keep], *parse(added)])


def as_line(record: Mapping[str, Any]) -> str:
    """A record as a line of a file, without its end."""
    return msgspec.json.encode(record).decode()


def item_of(record: Mapping[str, Any]) -> Json:
    """The item of the conversation that a record holds; empty of other records."""
    return as_object(record.get("payload")) if record.get("type") == ITEM else {}


def event_of(record: Mapping[str, Any]) -> str:
    """What a record tells of the harness; empty of other records."""
    return str(as_object(record.get("payload")).get("type", "")) if record.get("type") == EVENT else ""


def said_id(record: Mapping[str, Any]) -> str:
    """The id that we gave a message of the user, of the record that tells of it; it follows the message itself."""
    return str(as_object(_told(record).get("item")).get("client_id") or "")


def is_said(record: Mapping[str, Any], said: str) -> bool:
    """Whether it tells of the message of the user with this id: ours, or that of the turn that Codex began with it."""
    return bool(said) and said in {said_id(record), _told(record).get("turn_id")}


def _told(record: Mapping[str, Any]) -> Json:
    """What a record tells of a message of the user; empty of other records."""
    payload = as_object(record.get("payload"))
    told = record.get("type") == EVENT and payload.get("type") == "item_completed"
    return payload if told and as_object(payload.get("item")).get("type") == "UserMessage" else {}


def prompt_of(record: Mapping[str, Any]) -> str | None:
    """What a person has said, of the record that tells of it; older versions of Codex told it otherwise."""
    payload = as_object(record.get("payload"))
    item = as_object(payload.get("item"))
    match event_of(record):
        case "item_completed" if item.get("type") == "UserMessage":
            return text_of(item)
        case "user_message":
            return str(payload.get("message", ""))
        case _:
            return None


def is_call(item: Mapping[str, Any]) -> bool:
    """Whether the harness has been asked for something and owes an output."""
    return str(item.get("type", "")).endswith(_CALL) and bool(item.get("call_id"))


def is_output(item: Mapping[str, Any]) -> bool:
    """Whether it answers a call."""
    return str(item.get("type", "")).endswith(_OUTPUT)


def is_answer(item: Mapping[str, Any]) -> bool:
    """Whether the model has said this."""
    if item.get("type") == "message":
        return item.get("role") == "assistant"
    return bool(item) and not is_output(item)


def is_aside(item: Mapping[str, Any]) -> bool:
    """Whether Codex itself says this to its model: where it works, what day it is, that a turn was stopped."""
    if item.get("type") != "message" or item.get("role") == "assistant":
        return False
    return item.get("role") != "user" or text_of(item).lstrip().startswith(_CONTEXT)


def text_of(item: Mapping[str, Any]) -> str:
    """The words of a message."""
    return "".join(str(part.get("text", "")) for part in as_objects(item.get("content")))


def words_of(output: object) -> object:
    """The output of a call, a text by itself however it is given."""
    parts = as_objects(output)
    if len(parts) == 1 and parts[0].get("type") == "input_text":
        output = parts[0].get("text", "")
    return output.strip() if isinstance(output, str) else output


def has_said(records: Sequence[Json], said: str) -> bool:
    """Whether the message of the user with this id is there, and told of."""
    return any(is_said(record, said) for record in records)


def dangling(records: Sequence[Json]) -> list[Json]:
    """The calls of the newest turn without an output, in order.

    Those before its prompt, or before the last compaction, are history and do not count: Codex tells its model of them.
    """
    begins = max((at for at, record in enumerate(records) if prompt_of(record) is not None), default=0)
    items = [item for record in records[max(begins, boundary(records)) :] if (item := item_of(record))]
    answered = {item.get("call_id") for item in items if is_output(item)}
    return [item for item in items if is_call(item) and item.get("call_id") not in answered]


def boundary(records: Sequence[Json]) -> int:
    """Where the part begins that came after the last compaction."""
    return max((at + 1 for at, record in enumerate(records) if record.get("type") == COMPACTED), default=0)


def output_of(call: Mapping[str, Any], output: object) -> Json:
    """The item that answers a call."""
    answers: Json = {"call_id": call.get("call_id")}
    match call.get("type"):
        case "custom_tool_call":
            named = {"name": call["name"]} if call.get("name") else {}
            return {"type": "custom_tool_call_output", **answers, **named, "output": output}
        case "tool_search_call":  # what it had found is found again
            return {"type": SEARCHED, **answers, "status": "completed", "execution": "client", "tools": []}
        case _:
            return {"type": "function_call_output", **answers, "output": output}


def usage_of(usage: Mapping[str, Any]) -> Json:
    """What an answer has used, in Codex's words, from a provider's."""
    read, made = as_object(usage.get("input_tokens_details")), as_object(usage.get("output_tokens_details"))
    asked, said = int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0)
    return {
        "input_tokens": asked,
        "cached_input_tokens": int(read.get("cached_tokens") or 0),
        "output_tokens": said,
        "reasoning_output_tokens": int(made.get("reasoning_tokens") or 0),
        "total_tokens": int(usage.get("total_tokens") or asked + said),
    }


def message(text: str) -> Json:
    """A message of the user."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
