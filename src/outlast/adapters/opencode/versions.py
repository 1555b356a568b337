"""Which OpenCode is here, and whether recovery has been tried with it."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from outlast import programs
from outlast.adapters.program import untested
from outlast.errors import HarnessMissing

TESTED: Final = ("1.18.33",)
"""Versions that the whole suite has been run against, newest last."""

INSTALL: Final = "outlast install opencode"
_UNKNOWN: Final = "unknown"
_PACKAGES: Final = (
    "opencode-linux-x64-baseline",
    "opencode-linux-x64",
    "opencode-linux-arm64",
    "opencode-darwin-arm64",
    "opencode-darwin-x64-baseline",
    "opencode-darwin-x64",
)
"""Packages that hold the program; the baseline ones also run on processors without AVX2, and start more slowly."""
_BASELINE: Final = "-baseline"
_PROCESSORS: Final = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Installed:
    """An OpenCode program on this machine."""

    program: Path
    version: str
    """`unknown` if nothing beside the program tells it."""

    @property
    def warning(self) -> str | None:
        """What to tell the user of this version; None if it is a tested one."""
        return untested("OpenCode", self.version, TESTED, "events", INSTALL)


def installed(program: Path | None = None) -> Installed:
    """The OpenCode program to run.

    Args:
        program: the program itself, or a directory with `node_modules` that holds its package; None: the one that
            `outlast install opencode` brings.

    Raises:
        HarnessMissing: there is none.
    """
    place = program or programs.find("opencode")
    found = program_in(place) if place.is_dir() else place
    if found is None or not found.is_file():
        raise HarnessMissing(harness="OpenCode", install=INSTALL)
    return Installed(found, version_beside(found))


def program_in(directory: Path) -> Path | None:
    """The program among the packages below `directory`."""
    wide = _has_avx2()
    names = sorted(_PACKAGES, key=lambda name: wide == name.endswith(_BASELINE))
    places = (directory / "node_modules" / name / "bin" / "opencode" for name in names)
    return next((place for place in places if place.is_file()), None)


def version_beside(program: Path) -> str:
    """The version that the program's package names: starting the program takes a second."""
    try:
        text = (program.parent.parent / "package.json").read_text(encoding="utf-8")
        package: Any = json.loads(text)
    except (OSError, ValueError):
        return _UNKNOWN
    found = cast("dict[str, Any]", package).get("version") if isinstance(package, dict) else None
    return found if isinstance(found, str) else _UNKNOWN


@lru_cache(maxsize=1)
def _has_avx2() -> bool:
    """Whether this machine's processor has AVX2; False where nothing tells."""
    try:
        return b" avx2 " in _PROCESSORS.read_bytes()
    except OSError:
        return False
