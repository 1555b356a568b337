"""Short lines for people, of what a model or a tool said: nothing in them moves a cursor or colours."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from outlast.records import Payload
from outlast.tool import result_text

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


def moment(at_s: float) -> str:
    """A moment in the person's own time zone: `2026-03-01 14:05`."""
    return datetime.fromtimestamp(at_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


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
