"""Which Claude Code is here, and whether recovery has been tried with it."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outlast import programs
from outlast.adapters.program import untested
from outlast.errors import HarnessMissing

TESTED: Final = ("2.1.332",)
"""Versions that the whole suite has been run against, newest last."""

_PACKAGE: Final = "claude_agent_sdk"
_PROGRAM: Final = "_bundled/claude"
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Installed:
    """A Claude Code program on this machine."""

    program: Path
    version: str
    """`unknown` if nothing beside the program tells it."""

    @property
    def warning(self) -> str | None:
        """What to tell the user of this version; None if it is a tested one."""
        return untested(
            "Claude Code", self.version, TESTED, "switches and records", "outlast install claude-code"
        )


def installed(program: Path | None = None) -> Installed:
    """The Claude Code program to run: `program`, else that of the extra, else that of `outlast install`.

    Raises:
        HarnessMissing: there is none.
    """
    found = program or _bundled()
    if found is None or not found.is_file():
        raise HarnessMissing(harness="Claude Code", install=programs.how_to_install("claude-code"))
    return Installed(found, version_beside(found))


def version_beside(program: Path) -> str:
    """The version that the file `claude.version` beside the program names: starting the program takes seconds."""
    try:
        text = program.with_name("claude.version").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return _UNKNOWN
    return text.split()[0] if text.split() else _UNKNOWN


def _bundled() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]) / _PROGRAM
    try:
        return programs.find("claude-code") / _PACKAGE / _PROGRAM
    except HarnessMissing:
        return None
