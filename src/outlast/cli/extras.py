"""Fetch an extra on first use.

`uvx outlast demo` begins in an environment without extras: what they bring is too large to be everybody's dependency.
What the extra names is then installed beside, into the user's cache, with whichever of uv and pip is here.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

import click
from platformdirs import user_cache_path

from outlast.cli.fetching import TIMEOUT_S, wheel_installer, whole
from outlast.errors import HarnessMissing
from outlast.ids import digest


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of ours that a command can fetch by itself."""

    name: str
    modules: tuple[str, ...]
    """What it makes importable."""
    what: str
    """What it brings, for people."""
    size: str
    alone: bool = False
    """It is a program in a wheel, of which nothing is imported: it is installed without what it depends on."""

    @property
    def hint(self) -> str:
        return f"pip install 'outlast[{self.name}]'"

    @property
    def here(self) -> bool:
        return all(util.find_spec(module) is not None for module in self.modules)


def requirements(extra: str) -> list[str]:
    """What `extra` names, as requirements of their own."""
    clause = f"extra == '{extra}'"
    found = [text.replace('"', "'") for text in metadata.requires("outlast") or ()]
    return sorted(text.replace(clause, "python_version > '3'") for text in found if clause in text)


def fetch(extra: Extra) -> None:
    """Make the modules of `extra` findable here and in the processes that we start, by installing it if need be.

    Raises:
        HarnessMissing: neither uv nor pip is here, or what they tried did not work.
    """
    if extra.here:
        return
    wanted = requirements(extra.name)
    # What is here already keeps its version: the processes that we start find the fetched copies first.
    pinned = [] if extra.alone else _installed()
    name = digest(repr((wanted, pinned, sys.version_info[:2])).encode())
    place = user_cache_path("outlast") / "extras" / f"{extra.name}-{name}"
    if not place.exists():
        _install(extra, wanted, pinned, place)
    sys.path.append(str(place))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(place))))
    importlib.invalidate_caches()


def _installed() -> list[str]:
    """Every distribution that is here, but ourselves, as a constraint."""
    found = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return sorted(f"{name}=={version}" for name, version in found.items() if name and name != "outlast")


def _install(extra: Extra, wanted: Sequence[str], pinned: Sequence[str], place: Path) -> None:
    installer = wheel_installer()
    if installer is None:
        raise HarnessMissing(harness=extra.what, install=extra.hint)
    place.parent.mkdir(parents=True, exist_ok=True)
    click.echo(f"Fetching {extra.what} into {place.parent} (once; {extra.size}).", err=True)
    with whole(place) as fresh:
        constraints = fresh.with_name("constraints.txt")
        constraints.write_text("\n".join(pinned))
        options = ["--no-deps"] if extra.alone else ["--constraint", str(constraints)]
        command = [*installer, *options, "--target", str(fresh), *wanted]
        try:
            subprocess.run(command, check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        except (subprocess.SubprocessError, OSError) as error:
            raise HarnessMissing(harness=extra.what, install=extra.hint) from error
