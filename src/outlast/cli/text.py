"""Words and short lines for people. What a model or a tool said comes through `plain` before it meets a terminal."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from outlast.records import Payload, Usage
from outlast.records.events import Event
from outlast.tool import result_text

WHY: Final = 800
"""Characters of a reason that are shown: it ends with what to do."""
MARK: Final = {"ok": "●", "error": "✗", "in_doubt": "?", "interrupted": "↷", "cancelled": "○"}
COLOUR: Final = {
    "ok": "green",
    "error": "red",
    "in_doubt": "yellow",
    "interrupted": "yellow",
    "cancelled": "bright_black",
}
_TELLING: Final = ("command", "file_path", "path", "pattern", "url", "description")
_CONTROL: Final = {
    **{code: chr(0x2400 + code) for code in range(32)},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    ord("\n"): "\n",
    ord("\t"): "    ",
    ord("\r"): "",
}


def plain(text: str) -> str:
    """`text` without anything that moves the cursor or colours: control characters are shown as signs."""
    return text.translate(_CONTROL)


def short(text: str, width: int = 60) -> str:
    """One plain line of at most `width` characters."""
    line = plain(" ".join(text[: width * 8].split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"


def age(seconds: float) -> str:
    """`12 s`, `4 min`, `3 h`, `2 d`."""
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (129_600, "h", 3600)):
        if seconds < limit:
            return f"{max(0.0, seconds) / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def moment(at_s: float) -> str:
    """A moment in the person's own time zone: `2026-03-01 14:05`."""
    return datetime.fromtimestamp(at_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def dollars(amount: float) -> str:
    """`$0.0110`."""
    return f"${amount:.4f}"


def tokens(usage: Usage) -> str:
    """`2,104 → 311 tokens   $0.0110`."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return f"{read:,} → {usage.output_tokens:,} tokens   {dollars(usage.cost_usd)}"


def arguments_text(payload: Payload) -> str:
    """What a tool was called with, on one line: the value that tells most, else all of them."""
    if payload.ref:
        return f"({payload.size:,} bytes)"
    try:
        given = msgspec.json.decode(payload.json, type=dict[str, Any] | None) or {}
    except msgspec.ValidationError:
        return short(result_text(payload.value()))
    for name in _TELLING:
        if isinstance(given.get(name), str):
            return short(given[name])
    return short(", ".join(f"{name}={result_text(one)}" for name, one in given.items()))


class _Block(msgspec.Struct):
    type: str = ""
    kind: str = ""
    text: str = ""


class _Message(msgspec.Struct, frozen=True):
    parts: list[_Block] = []


class _Answer(msgspec.Struct):
    """A model's answer: of a program its blocks, of a loop its message, of a script its text."""

    text: str = ""
    content: list[_Block] = []
    message: _Message = _Message()


def answer_text(event: Event) -> str:
    """The text of a model's answer, if it stands in the event."""
    if event.payload.ref:
        return ""
    try:
        answer = msgspec.json.decode(event.payload.json, type=_Answer)
    except msgspec.ValidationError:
        return ""
    blocks = [*answer.content, *answer.message.parts]
    texts = [answer.text, *(block.text for block in blocks if "text" in {block.type, block.kind})]
    return plain("\n".join(text.strip() for text in texts if text.strip()))


def payload_text(payload: Payload) -> str:
    """A payload as the model reads it, if it stands there."""
    return f"({payload.size:,} bytes)" if payload.ref else result_text(payload.value())
