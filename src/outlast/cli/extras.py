"""Fetch an extra on first use.

`uvx outlast demo` begins in an environment without extras: the harness's wheel is too large to be everybody's
dependency. What the extra names is then installed beside, into the user's cache, with whichever of uv and pip is here.
Only the named packages, without their dependencies: the harness is a program in a wheel, nothing of it is imported.
"""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Final

import click
from platformdirs import user_cache_path

from outlast.errors import HarnessMissing
from outlast.ids import digest

TIMEOUT_S: Final = 1_800.0
"""For some 400 MB over a slow line."""


def requirements(extra: str) -> list[str]:
    """What `extra` names, as requirements of their own."""
    clause = f"extra == '{extra}'"
    found = [text.replace('"', "'") for text in metadata.requires("outlast") or ()]
    return sorted(text.replace(clause, "python_version > '3'") for text in found if clause in text)


def fetch(extra: str, module: str, harness: str) -> None:
    """Make `module` findable here and in the processes that we start, by installing `extra` if need be.

    Raises:
        HarnessMissing: neither uv nor pip is here, or what they tried did not work.
    """
    if util.find_spec(module) is not None:
        return
    wanted = requirements(extra)
    name = digest(repr((wanted, sys.version_info[:2])).encode())
    place = user_cache_path("outlast") / "extras" / f"{extra}-{name}"
    if not place.exists():
        _install(wanted, place, harness, extra)
    sys.path.append(str(place))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(place))))
    importlib.invalidate_caches()


def _install(wanted: Sequence[str], place: Path, harness: str, extra: str) -> None:
    hint = f"pip install 'outlast[{extra}]'"
    place.parent.mkdir(parents=True, exist_ok=True)
    click.echo(f"Fetching {harness} into {place.parent} (once; some 400 MB).", err=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        fresh = Path(scratch, "new")
        command = [*_installer(harness, hint), "--no-deps", "--target", str(fresh), *wanted]
        try:
            subprocess.run(command, check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        except (subprocess.SubprocessError, OSError) as error:
            raise HarnessMissing(harness=harness, install=hint) from error
        try:
            fresh.rename(place)  # whole or not at all; of two that fetch at once, one wins
        except OSError:
            if not place.exists():
                raise


def _installer(harness: str, hint: str) -> list[str]:
    if uv := os.environ.get("UV") or shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    if util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    raise HarnessMissing(harness=harness, install=hint)
