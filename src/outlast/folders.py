"""Directories that are nobody else's: what stands in them are conversations, keys and locks."""

from pathlib import Path
from typing import Final

_PRIVATE: Final = 0o700


def make_private(directory: Path) -> None:
    """Make a directory, and those above it that are not there, for this user only; one that is there stays as it is.

    `Path.mkdir` with `parents` closes the last of them alone, and what comes beside it later lies open.

    Raises:
        OSError: it cannot be made.
    """
    missing = [directory]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for place in reversed(missing):
        place.mkdir(mode=_PRIVATE, exist_ok=True)
