"""Which Codex is here, and whether recovery has been tried with it."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from outlast import programs
from outlast.adapters.program import untested
from outlast.adapters.shapes import as_object
from outlast.errors import HarnessError, HarnessMissing

TESTED: Final = ("0.171.0",)
"""Versions that the whole suite has been run against, newest last."""

_PROGRAMS: Final = "node_modules/@openai/codex-*/vendor/*/bin/codex"
INSTALL: Final = "outlast install codex"
_ABOUT: Final = "codex-package.json"
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Installed:
    """A Codex program on this machine."""

    program: Path
    version: str
    """`unknown` if nothing beside the program tells it."""

    @property
    def warning(self) -> str | None:
        """What to tell the user of this version; None if it is a tested one."""
        return untested("Codex", self.version, TESTED, "an app-server and rollouts", INSTALL)


def installed(program: Path | None = None) -> Installed:
    """The Codex program to run: `program`, else the one that `outlast install codex` has brought.

    Raises:
        HarnessMissing: there is none.
    """
    found = program or _native(programs.find("codex"))
    if found is None or not found.is_file():
        raise HarnessMissing(harness="Codex", install=INSTALL)
    return Installed(found, version_of(found))


def version_of(program: Path) -> str:
    """The version that the package says which the program lies in: starting the program takes longer."""
    try:
        about = as_object(msgspec.json.decode((program.parent.parent / _ABOUT).read_bytes()))
    except (OSError, msgspec.DecodeError):
        return _UNKNOWN
    return str(about.get("version") or _UNKNOWN)


def _native(directory: Path) -> Path | None:
    """The program itself within the npm package: the script of that name only starts it, by Node."""
    return next(iter(sorted(directory.glob(_PROGRAMS))), None)


def bash() -> str:
    """The shell that runs our hook.

    Raises:
        HarnessError: there is none.
    """
    found = shutil.which("bash")
    if found is None:
        raise HarnessError(harness="Codex", reason="its hooks are run by bash, which is not on the PATH")
    return found
