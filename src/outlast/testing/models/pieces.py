"""What dialects take apart in the same way."""

import re
from typing import Any, Final, cast

_PIECE: Final = 48  # characters of a tool's input per frame


def dicts(content: object) -> list[dict[str, Any]]:
    """The objects in a list; none if it is no list."""
    listed = cast("list[object]", content) if isinstance(content, list) else []
    return [cast("dict[str, Any]", block) for block in listed if isinstance(block, dict)]


def pieces(text: str) -> list[str]:
    """Cut a text into pieces of one length; joined again they are the text."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def words(text: str) -> list[str]:
    """Split a text into words with the space that follows them; joined again they are the text."""
    return re.findall(r"\S+\s*|\s+", text)
