"""What extras and harnesses are fetched with: uv or pip, into a directory that is whole or absent."""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 1_800.0
"""For some 400 MB over a slow line."""


def wheel_installer() -> list[str] | None:
    """A command that installs wheels, without what they are; None if neither uv nor pip is here."""
    if uv := os.environ.get("UV") or shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    if util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return None


@contextmanager
def whole(place: Path) -> Generator[Path]:
    """A directory to fill, which is `place` when all went well; of two that fill one at once, one wins."""
    with tempfile.TemporaryDirectory(
        prefix=f".{place.name}-", dir=place.parent, ignore_cleanup_errors=True
    ) as scratch:
        fresh = Path(scratch, "new")
        fresh.mkdir()
        yield fresh
        try:
            fresh.rename(place)
        except OSError:
            if not place.exists():
                raise
