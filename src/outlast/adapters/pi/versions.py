"""Which Pi is here, and whether recovery has been tried with it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from outlast import programs
from outlast.adapters.program import untested
from outlast.adapters.shapes import as_object
from outlast.errors import HarnessMissing

TESTED: Final = ("1.6.0",)
"""Versions that the whole suite has been run against, newest last."""
NODE: Final = "22.19"
"""The oldest Node that it runs on. npm on an older one installs an older Pi, without a word."""

_PACKAGE: Final = "node_modules/@earendil-works/pi-coding-agent"
_CHOICE: Final = "dist/core/model-resolver.js"
"""Below its package: the module that holds its own choice of models."""
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Installed:
    """A Pi on this machine."""

    package: Path
    """The directory of its npm package."""
    node: Path
    version: str
    """`unknown` if its package does not tell."""

    @property
    def program(self) -> Path:
        """The script that Node runs."""
        return self.package / "dist" / "bundle" / "cli.js"

    @property
    def warning(self) -> str | None:
        """What to tell the user of this version; None if it is a tested one."""
        return untested("Pi", self.version, TESTED, "events and records", "outlast install pi")

    def default_model(self, provider: str) -> str:
        """The model that Pi itself chooses of a provider where it has a key of no other; empty if nothing tells."""
        try:
            text = (self.package / _CHOICE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        _, _, listed = text.partition("defaultModelPerProvider = {")
        found = re.search(
            rf'^\s*"?{re.escape(provider)}"?: "([^"]+)"', listed.partition("}")[0], re.MULTILINE
        )
        return found[1] if found else ""


def installed(directory: Path | None = None) -> Installed:
    """The Pi to run: the one that npm has put into `directory`, else the one of `outlast install pi`.

    Raises:
        HarnessMissing: there is none, or no Node that runs it.
    """
    package = (directory or programs.find("pi")) / _PACKAGE
    if not package.is_dir():
        raise HarnessMissing(harness="Pi", install=programs.how_to_install("pi"))
    return Installed(package, programs.node(NODE), version_of(package))


def version_of(package: Path) -> str:
    """The version that the npm package in this directory names."""
    try:
        said = as_object(msgspec.json.decode((package / "package.json").read_bytes()))
    except (OSError, msgspec.DecodeError):
        return _UNKNOWN
    return str(said.get("version", _UNKNOWN))
