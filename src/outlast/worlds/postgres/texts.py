"""Texts as Postgres can hold them: any but NUL."""

from collections.abc import Sequence

import msgspec


def stored(text: str) -> str:
    r"""`text` as it is stored: NUL as `\0`, and so a backslash as `\\`."""
    if "\\" in text or "\0" in text:
        return text.replace("\\", "\\\\").replace("\0", "\\0")
    return text


def told(text: str) -> str:
    """The text that is stored as `text`."""
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


def names(texts: Sequence[str]) -> str | None:
    """Some names as they are stored in one column, or None if there are none. JSON writes NUL as an escape."""
    return msgspec.json.encode(texts).decode() if texts else None


def told_names(text: str | None) -> tuple[str, ...]:
    """The names that are stored as `text`."""
    return tuple(msgspec.json.decode(text, type=list[str])) if text else ()


def told_labels(stored_names: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """The labels whose names and values are stored as these."""
    return dict(zip(map(told, stored_names), map(told, values), strict=True))
