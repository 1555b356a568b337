"""Bringing a transcript up to what the log knows.

Every line that stays keeps its place, so that positions in the mirror go on to mean what they meant.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from outlast.adapters.claude_code.transcript import (
    MARKER,
    as_line,
    blocks,
    dangling,
    holds,
    is_answer,
    is_over,
    message_ids,
    parse,
)
from outlast.adapters.shapes import Json, as_object

Ids: TypeAlias = Callable[[str], str]

_OF_TASKS: Final = "<system-reminder>\nThe task tools haven't been used recently."
_WITH_TASKS: Final = "existing tasks"
_COPIED: Final = ("userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch")


@dataclass(frozen=True, slots=True)
class Steer:
    """What a person said while the turn ran, as a request carried it."""

    text: str
    uuid: str = ""
    """The UUID of its line on standard input."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished model call of the main lane, from the log."""

    id: str
    model: str
    content: Sequence[Mapping[str, Any]]
    stop_reason: str | None
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """As the provider gave it: Claude Code decides from it when to compact."""
    steers: Sequence[Steer] = ()
    """Steers that its request was the first to carry."""
    reminders: Sequence[str] = ()
    """What Claude Code itself added at the end of its request."""


@dataclass(frozen=True, slots=True)
class Result:
    """What the model is told of a settled tool call."""

    content: str | Sequence[Mapping[str, Any]]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """What to do to a transcript before Claude Code reads it."""

    keep: int
    """Lines to keep of the old ones."""
    lines: Sequence[str]
    """Lines to append."""


class Unanswered(ValueError):
    """A tool call has no result in the transcript, none was given, and it is not the one to run again."""


@dataclass(frozen=True, slots=True)
class Pen:
    """What new records are written with."""

    uuid: Ids
    """A UUID for a name, the same for the same name; another attempt's must differ."""
    at: str
    """Time stamp, as `2026-11-29T16:25:32.135Z`."""


def repair(  # noqa: PLR0913 - each keyword is another part of what the log knows
    lines: Sequence[str],
    *,
    pen: Pen,
    answers: Sequence[Answer],
    results: Mapping[str, Result],
    rerun: str | None = None,
    steers: Sequence[Steer] = (),
    sentinel: str = "",
) -> Repair:
    """Bring a transcript up to what the log knows.

    Adds the answers of the turn that it lacks, whole or in part, with the steers that their requests carried; a result
    for each call without one; the steers that the open request carries; last, for at most one call, a marker that has
    it run again. What a failed request left behind at the end is cut off.

    Args:
        answers: the turn's finished model calls of the main lane in order, without those that compacted.
        results: what the model is told of each call that has ended, by the id that model and harness use.
        rerun: the call without a result that Claude Code shall run again.
        steers: those that the request to be sent next was the first to carry.
        sentinel: the resume prompt. One that nothing was answered to is cut off: at the end of a transcript it would
            keep Claude Code from going on.

    Raises:
        Unanswered: a call has neither a result nor leave to run again.
    """
    records = parse(lines)
    records = records[: _end(records, answers, sentinel)]
    keep = len(records)
    writer = _Writer(records, pen)
    present = message_ids(records)
    for answer in answers:
        if answer.id in present:
            writer.complete(answer)
        else:
            writer.results(results, None)
            writer.steers(answer.steers)
            writer.reminders(answer.reminders)
            writer.answer(answer, 0)
    writer.results(results, rerun)
    writer.steers(steers)
    if rerun is not None:
        writer.marker(rerun)
    return Repair(keep, [as_line(record) for record in records[keep:]])


def closed(lines: Sequence[str], *, pen: Pen, results: Mapping[str, Result], sentinel: str) -> Repair:
    """Make a turn that was cut short ready for another prompt.

    Each of its calls gets its result, and the model the last word with `sentinel`, which the gateway takes out of
    every request. Without it Claude Code would put in "No response requested." itself.
    """
    done = repair(lines, pen=pen, answers=(), results=results, sentinel=sentinel)
    records = parse([*lines[: done.keep], *done.lines])
    if is_over(records):
        return done
    writer = _Writer(records, pen)
    writer.answer(
        Answer(f"msg_{pen.uuid('closing')}", "<synthetic>", [{"type": "text", "text": sentinel}], "end_turn"),
        0,
    )
    return Repair(done.keep, [as_line(record) for record in records[done.keep :]])


def _end(records: Sequence[Json], answers: Sequence[Answer], sentinel: str) -> int:
    """Where the part of the transcript ends that is to be built on."""
    end = len(records)
    present = message_ids(records)
    known = [answer.id in present for answer in answers]
    if True in known and False in known[: len(known) - known[::-1].index(True)]:
        # An answer is missing between others: what follows the gap is written anew.
        after = {answer.id for answer in answers[known.index(False) :]}
        end = next(i for i, r in enumerate(records) if is_answer(r) and r["message"]["id"] in after)
    return _without_failures(records[:end], sentinel)


def _without_failures(records: Sequence[Json], sentinel: str) -> int:
    end = len(records)
    for i in range(len(records) - 1, -1, -1):
        if records[i].get("isApiErrorMessage") or _is_resume_prompt(records[i], sentinel):
            end = i
        elif records[i].get("type") in {"user", "assistant"}:
            break
    return end


def _last_word(records: Sequence[Json]) -> int:
    return next((i for i in range(len(records) - 1, -1, -1) if blocks(records[i])), 0)


def _reminds(record: Json) -> bool:
    """Whether the record is one from which Claude Code makes a reminder."""
    return str(as_object(record.get("attachment")).get("type", "")).endswith("_reminder")


def _is_resume_prompt(record: Json, sentinel: str) -> bool:
    content = as_object(record.get("message")).get("content")
    # After a marker it is a plain text, else a block.
    texts = [content] if isinstance(content, str) else [block.get("text") for block in blocks(record)]
    return record.get("type") == "user" and texts == [sentinel]


class _Writer:
    """Appends records to a transcript, each below the last of the tree."""

    def __init__(self, records: list[Json], pen: Pen) -> None:
        self._records = records
        self._pen = pen
        self._below = next((r["uuid"] for r in reversed(records) if r.get("uuid")), None)
        last = next((r for r in reversed(records) if r.get("uuid")), Json())
        self._copied = {name: last[name] for name in _COPIED if name in last}

    def _append(self, name: str, kind: str, **content: Any) -> str:
        uuid = self._pen.uuid(name)
        record = {"parentUuid": self._below, "isSidechain": False, "type": kind, **content}
        self._records.append({**record, "uuid": uuid, "timestamp": self._pen.at, **self._copied})
        self._below = uuid
        return uuid

    def answer(self, answer: Answer, first: int) -> None:
        for index, block in enumerate(answer.content[first:], first):
            if block.get("type") == "text" and not block.get("text"):
                continue
            message = {
                "id": answer.id,
                "type": "message",
                "role": "assistant",
                "model": answer.model,
                "content": [block],
                "stop_reason": answer.stop_reason,
                "stop_sequence": None,
                "usage": dict(answer.usage),
            }
            self._append(f"{answer.id}/{index}", "assistant", message=message)

    def complete(self, answer: Answer) -> None:
        """Blocks are written in order: what is missing of an answer is its end."""
        there = [
            block
            for record in self._records
            if is_answer(record) and record["message"]["id"] == answer.id
            for block in blocks(record)
        ]
        last = max(
            (i for i, block in enumerate(answer.content) if any(_same(block, t) for t in there)), default=-1
        )
        self.answer(answer, last + 1)

    def results(self, results: Mapping[str, Result], rerun: str | None) -> None:
        for use in dangling(self._records):
            if use.id == rerun:
                continue
            result = results.get(use.id)
            if result is None:
                raise Unanswered(use.id)
            block: Json = {"tool_use_id": use.id, "type": "tool_result", "content": result.content}
            if (
                result.is_error or use.name == "Bash"
            ):  # as Claude Code does, so that the provider's cache holds
                block["is_error"] = result.is_error
            message = {"role": "user", "content": [block]}
            self._append(f"result/{use.id}", "user", message=message, sourceToolAssistantUUID=use.record)

    def steers(self, steers: Sequence[Steer]) -> None:
        for number, steer in enumerate(steers):
            if steer.uuid and holds(self._records, steer.uuid):
                continue
            attachment = {
                "type": "queued_command",
                "prompt": steer.text,
                "source_uuid": steer.uuid or self._pen.uuid(f"steer/{number}/{steer.text}"),
                "commandMode": "prompt",
                "rowSource": "local",
                "timestamp": self._pen.at,
                "hostsOwnTurn": True,
            }
            self._append(f"steered/{attachment['source_uuid']}", "attachment", attachment=attachment)

    def reminders(self, reminders: Sequence[str]) -> None:
        """They are made anew at the next request if they are due; not behind an answer that has followed them."""
        if any(_reminds(record) for record in self._records[_last_word(self._records) :]):
            return
        for number, text in enumerate(reminders):
            name = f"reminder/{self._below}/{number}"
            if text.startswith(_OF_TASKS) and _WITH_TASKS not in text:
                # As its own record it also counts: else it would come again soon.
                attachment: Json = {"type": "task_reminder", "content": [], "itemCount": 0}
                self._append(name, "attachment", attachment=attachment)
            else:
                message = {"role": "user", "content": [{"type": "text", "text": text}]}
                self._append(name, "user", isMeta=True, message=message)

    def marker(self, call: str) -> None:
        use = next((use for use in dangling(self._records) if use.id == call), None)
        if use is None:
            return
        attachment = {
            "type": MARKER,
            "toolUseID": use.id,
            "toolName": use.name,
            "toolInput": use.input,
            "hookName": "settings",
            "hookEvent": "PreToolUse",
            "permissionMode": "default",
        }
        self._append(f"marker/{use.id}", "attachment", attachment=attachment)


def _same(block: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    if kind != other.get("type"):
        return False
    key = {"tool_use": "id", "text": "text", "thinking": "thinking"}.get(str(kind))
    return block == other if key is None else block.get(key) == other.get(key)
