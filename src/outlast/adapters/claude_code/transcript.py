"""Reading Claude Code's transcript, and making it fit to be resumed from.

Everything here is pure. A transcript is a list of lines, each a JSON record; the mirror of it in our log is the file
less the records that Claude Code does not mirror and does not need. Records form a tree by `uuid` and `parentUuid`; an
answer of the model is one assistant record for each of its blocks, with the same `message.id`. The facts behind this,
and the version that they were found on, are in `docs/internals/claude-code.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from outlast.adapters.shapes import Json, as_list, as_object

MARKER: Final = "hook_deferred_tool"
"""Type of the attachment that has one call run again."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call as the transcript holds it."""

    id: str
    name: str
    input: Mapping[str, Any]
    record: str
    """UUID of its record."""


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


def message_ids(records: Sequence[Json]) -> frozenset[str]:
    """Ids of the model's answers of which at least one block is there."""
    return frozenset(record["message"]["id"] for record in records if is_answer(record))


def holds(records: Sequence[Json], uuid: str) -> bool:
    """Whether the record with this UUID is there.

    Of a prompt or a steer that is the `uuid` that we gave its line; of what was typed into Claude Code, its `promptId`.
    """
    return any(
        uuid in {record.get("uuid"), record.get("promptId"), _attached(record).get("source_uuid")}
        for record in records
    )


def dangling(records: Sequence[Json]) -> Sequence[ToolUse]:
    """Tool calls without a result, in order; those before the last compaction are history and do not count."""
    live = records[_boundary(records) :]
    answered = {
        block["tool_use_id"]
        for record in live
        for block in blocks(record)
        if block.get("type") == "tool_result"
    }
    return [
        ToolUse(block["id"], block["name"], block.get("input") or {}, record["uuid"])
        for record in live
        if record.get("type") == "assistant"
        for block in blocks(record)
        if block.get("type") == "tool_use" and block["id"] not in answered
    ]


def is_over(records: Sequence[Json]) -> bool:
    """Whether the last word is the model's and asks for nothing: a new prompt may follow it."""
    last = last_word(records)
    return last is None or (
        last.get("type") == "assistant" and last["message"].get("stop_reason") != "tool_use"
    )


def _boundary(records: Sequence[Json]) -> int:
    places = [i for i, record in enumerate(records) if record.get("subtype") == "compact_boundary"]
    return places[-1] if places else 0


def blocks(record: Json) -> list[Json]:
    """The content blocks of a message; none of other records and of plain text."""
    if record.get("type") not in {"user", "assistant"}:
        return []
    return as_list(as_object(record.get("message")).get("content"))


def _attached(record: Json) -> Json:
    return as_object(record.get("attachment"))


def is_answer(record: Json) -> bool:
    """Whether the record is a piece of an answer of the model, and not of one that Claude Code made up."""
    return record.get("type") == "assistant" and not record.get("isApiErrorMessage")


def last_word(records: Sequence[Json]) -> Json | None:
    """The last record that says something to the model or is said by it."""
    return next((r for r in reversed(records) if r.get("type") in {"user", "assistant"}), None)


def materialised(lines: Sequence[str]) -> Sequence[str]:
    """The lines as they must be on disk when Claude Code starts: complete records, and no marker of an earlier resume.

    A re-run marker is obeyed at every start, also when its call has long had a result; it stays in its place as a
    record that says nothing, since others name it as their parent. The last line's marker is kept: it is this
    start's.
    """
    whole = lines[: len(parse(lines))]
    return [*(_defused(line) for line in whole[:-1]), *whole[-1:]]


def _defused(line: str) -> str:
    if f'"{MARKER}"' not in line:
        return line
    record = parse([line])[0]
    attachment = _attached(record)
    if attachment.get("type") != MARKER:
        return line
    record["attachment"] = {
        "type": "hook_success",
        "hookName": f"PreToolUse:{attachment.get('toolName', '')}",
        "toolUseID": attachment.get("toolUseID", ""),
        "hookEvent": "PreToolUse",
        "content": "",
        "stdout": "",
        "stderr": "",
        "exitCode": 0,
    }
    return as_line(record)


def as_line(record: Mapping[str, Any]) -> str:
    """A record as a line of a file, without its end."""
    return msgspec.json.encode(record).decode()
