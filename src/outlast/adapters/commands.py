"""What the adapters of programs have alike in how they tell of commands that outlived their program."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.workspace import Ran

TEXT_LIMIT: Final = 30_000
"""Characters of a command's output that the model reads: the first and the last half of what is longer."""

_LONGEST: Final = 1e12


def bounded(text: str, limit: int = TEXT_LIMIT) -> str:
    """A text with its middle left out where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters are left out here …]\n{text[-half:]}"


def output_of(ran: Ran) -> str:
    """Both streams, one after the other, at a length that a model can read."""
    parts = [part for part in (ran.stdout, ran.stderr) if part]
    return bounded(
        "".join(part if part is parts[-1] or part.endswith("\n") else f"{part}\n" for part in parts)
    )


def seconds_of(arguments: Mapping[str, Any], name: str, parts: int = 1) -> float:
    """A time of a call's arguments, in seconds; 0 where it names none.

    Args:
        parts: of a second that it is given in.
    """
    given: object = arguments.get(name)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < _LONGEST:
        return 0.0
    return given / parts
