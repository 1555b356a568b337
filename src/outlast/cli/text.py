"""Words and short lines for people. What a model or a tool said comes through `plain` before it meets a terminal."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from outlast.records import Payload, Usage
from outlast.records.events import Event
from outlast.tool import result_text
from outlast.wording import arguments_text, moment, plain, short

__all__ = [
    "COLOUR",
    "MARK",
    "WHY",
    "age",
    "answer_text",
    "arguments_text",
    "coloured",
    "dollars",
    "moment",
    "payload_text",
    "plain",
    "short",
    "tokens",
]

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


def age(seconds: float) -> str:
    """`12 s`, `4 min`, `3 h`, `2 d`."""
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (129_600, "h", 3600)):
        if seconds < limit:
            return f"{max(0.0, seconds) / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def dollars(amount: float) -> str:
    """`$0.0110`."""
    return f"${amount:.4f}"


def tokens(usage: Usage) -> str:
    """`2,104 → 311 tokens   $0.0110`."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return f"{read:,} → {usage.output_tokens:,} tokens   {dollars(usage.cost_usd)}"


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


def coloured(line: Sequence[tuple[str, str]]) -> str:
    """Pieces of text, each in its style: a colour by its name, `bold`, or nothing. Plain where no terminal reads it."""
    whole = "".join(text for text, _ in line).rstrip()
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return whole
    return "".join(
        click.style(text, bold=True) if style == "bold" else click.style(text, fg=style or None)
        for text, style in line
    )
