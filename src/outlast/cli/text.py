"""Sentences and lines for people."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from outlast.fold import CallState, SessionState
from outlast.records import AnyRecord, Payload, Usage
from outlast.tool import result_text
from outlast.world import SessionHead

_MARK = {"ok": "●", "error": "✗", "in_doubt": "?", "interrupted": "↷", "cancelled": "○"}


def age(seconds: float) -> str:
    """`12 s`, `4 min`, `3 h`, `2 d`."""
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (129_600, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def tokens(usage: Usage) -> str:
    """`2,104 → 311 tokens   $0.0110`."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return f"{read:,} → {usage.output_tokens:,} tokens   ${usage.cost_usd:.4f}"


def short(text: str, width: int = 60) -> str:
    """One line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def arguments_text(payload: Payload) -> str:
    """What a tool was called with, on one line: the value of its only argument, else all of them."""
    if payload.ref:
        return f"({payload.size:,} bytes)"
    value: Any = payload.value()
    if not isinstance(value, dict):
        return short(result_text(value))
    for name in ("command", "file_path", "path", "pattern", "url", "description"):
        if isinstance(value.get(name), str):
            return short(value[name])
    return short(", ".join(f"{name}={result_text(one)}" for name, one in value.items()))


def head_line(head: SessionHead) -> str:
    """A session in `ls`."""
    when = datetime.fromtimestamp(head.updated_at_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{head.session:32} {head.agent:14} {head.status:52} {when}"


def call_line(call: CallState) -> str:
    """A call of the open turn in `show`."""
    intent = call.intent
    if call.outcome is None:
        mark, state = ("◌", "running") if call.started or not intent.granted else ("·", "granted")
    else:
        mark, state = _MARK[call.outcome.status], call.outcome.status
    lane = "" if intent.lane == "main" else f"[{intent.lane}] "
    if intent.kind == "model":
        spent = tokens(call.outcome.usage) if call.outcome is not None and call.outcome.usage else ""
        return f"  {mark} {intent.call:>4} {lane}model  {state:11} {spent}"
    return f"  {mark} {intent.call:>4} {lane}{intent.name:10} {state:11} {intent.policy:6} {arguments_text(intent.arguments)}"


def session_text(head: SessionHead, state: SessionState, result: Any) -> str:
    """`show` for people."""
    lines = [f"session {head.session} · {head.agent} · {head.status}"]
    if state.opened is not None and state.opened.cwd:
        lines.append(f"  works in {state.opened.cwd}")
    turn = state.turn
    if turn is None:
        if state.last is not None:
            ending = state.last.error or (result_text(result) if result is not None else "")
            lines.append(f"  turn {state.last.turn} {state.last.status}: {ending}")
        return "\n".join(lines)
    lines.append(f"turn {turn.turn}, attempt {max(1, len(turn.attempts))}:")
    lines += [call_line(call) for call in turn.calls.values()]
    if turn.parked is not None:
        evidence = msgspec.json.format(msgspec.json.encode(turn.parked.evidence), indent=2).decode()
        lines += [
            f"{turn.parked.why}. The evidence:",
            evidence,
            f"End it with: outlast cancel {head.session}",
        ]
    return "\n".join(lines)


def record_line(seq: int, index: int, fence: int, record: AnyRecord) -> str:
    """A record in `log`."""
    data: dict[str, Any] = msgspec.to_builtins(record)
    kind = str(data.pop("is"))
    facts = " ".join(
        f"{name}={short(msgspec.json.encode(value).decode(), 80)}" for name, value in data.items()
    )
    return f"{seq:>5}.{index} #{fence} {kind:16} {facts}"
