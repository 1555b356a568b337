"""Where Claude Code keeps the files of a session, below HOME."""

import re
from typing import Final

_SLUG_LENGTH: Final = 200
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9._-]+\Z")


def slug(cwd: str) -> str:
    """The name of the directory below `projects/` for sessions that work in `cwd`, an absolute real path."""
    # As a JavaScript regular expression sees it: in units of UTF-16.
    units = cwd.encode("utf-16-le")
    text = "".join(
        chr(unit) if (unit := units[i] | units[i + 1] << 8) < 128 and chr(unit).isalnum() else "-"
        for i in range(0, len(units), 2)
    )
    if len(text) <= _SLUG_LENGTH:
        return text
    return f"{text[:_SLUG_LENGTH]}-{_base36(abs(_hash32(units)))}"


def _hash32(units: bytes) -> int:
    value = 0
    for i in range(0, len(units), 2):
        value = (value * 31 + (units[i] | units[i + 1] << 8)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"


def transcript_path(cwd: str, session: str) -> str:
    """Path below HOME of the transcript of `session`, a UUID."""
    return f".claude/projects/{slug(cwd)}/{session}.jsonl"


def mirrored_path(path: str, home: str) -> str | None:
    """`path` of a mirror entry as one below `home`, or None if it lies elsewhere."""
    prefix = home.rstrip("/") + "/"
    if not path.startswith(prefix):
        return None
    below = path.removeprefix(prefix)
    return (
        below
        if all(_SAFE_NAME.match(name) and name not in {".", ".."} for name in below.split("/"))
        else None
    )
