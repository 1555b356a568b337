"""`outlast install`: put harnesses into outlast's own directory, pinned."""

import os
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Final, Literal

import click
import msgspec
from click.shell_completion import CompletionItem

from outlast import programs
from outlast.cli.exits import guarded
from outlast.cli.installing import install as install_one
from outlast.cli.installing import remove as remove_one
from outlast.cli.options import Setup, examples, setup_of
from outlast.errors import BadInput, HarnessMissing

_EVERY_S: Final = 0.5


class Standing(msgspec.Struct, frozen=True):
    """How a harness stands here."""

    harness: str
    version: str
    state: Literal["installed", "missing", "removed"]
    path: str
    node: str = ""
    """The oldest Node.js that it runs on; empty if it needs none."""


class HarnessName(click.ParamType[str]):
    """A harness that can be installed."""

    name = "harness"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin with `incomplete`."""
        return [CompletionItem(name) for name in programs.names() if name.startswith(incomplete)]


@click.command(
    epilog=examples("outlast install", "outlast install codex opencode", "outlast install --remove pi")
)
@click.argument("harnesses", metavar="[HARNESS]...", type=HarnessName(), nargs=-1)
@click.option("--remove", is_flag=True, help="Remove them instead, in every version.")
@click.option("--json", is_flag=True, help="Answer in JSON, one object a line.")
def install(harnesses: tuple[str, ...], remove: bool, json: bool) -> None:
    """Install HARNESSes, in the versions that outlast is tested with; without a name, list what there is.

    They go into outlast's own directory and nowhere else (OUTLAST_HARNESS_DIR, else `harnesses` in the data directory).
    They come from the registries that npm, uv and pip are set up for; none of their install scripts is run. What is
    there already is left as it is. Where a harness needs a newer Node.js than the machine's, that comes along.
    """
    guarded(lambda: _body(setup_of(world=None, json=json), harnesses, remove=remove), json=json)


def _body(setup: Setup, harnesses: Sequence[str], *, remove: bool) -> None:
    if remove and not harnesses:
        raise BadInput(detail="Name what to remove: outlast install --remove HARNESS")
    for name in harnesses:
        programs.lock_of(name)  # of several, none is installed when one is misspelt
    for name in harnesses or programs.names():
        if remove:
            _removed(setup, name)
        elif harnesses:
            install_one(name, show_progress)
            _tell(setup, name)
        else:
            _tell(setup, name)


def _removed(setup: Setup, name: str) -> None:
    for path in remove_one(name):
        standing = Standing(name, programs.lock_of(name).version, "removed", str(path))
        setup.say(standing, f"{name:12} removed    {path}")


def _tell(setup: Setup, name: str) -> None:
    lock = programs.lock_of(name)
    try:
        path = str(programs.find(name))
        standing = Standing(name, lock.version, "installed", path, lock.node)
        setup.say(standing, f"{name:12} {lock.version:10} installed  {path}")
    except HarnessMissing:
        standing = Standing(name, lock.version, "missing", str(programs.place_of(name)), lock.node)
        setup.say(standing, f"{name:12} {lock.version:10} missing    {programs.how_to_install(name)}")


@contextmanager
def show_progress(name: str, place: Path) -> Generator[None]:
    """Say on standard error that `name` is being installed; on a terminal also how much of it is here."""
    begun, done = monotonic(), threading.Event()
    click.echo(f"Installing {name} …", err=True)
    drawing = threading.Thread(target=_draw, args=(place, begun, done), daemon=True)
    if sys.stderr.isatty():
        drawing.start()
    try:
        yield
    finally:
        done.set()
        if drawing.is_alive():
            drawing.join()
    click.echo(f"Installed {name}: {_megabytes(place):,.0f} MB in {monotonic() - begun:.0f} s.", err=True)


def _draw(place: Path, begun: float, done: threading.Event) -> None:
    while not done.wait(_EVERY_S):
        click.echo(f"\r  {_megabytes(place):,.0f} MB, {monotonic() - begun:.0f} s ", nl=False, err=True)
    click.echo("\r\033[K", nl=False, err=True)


def _megabytes(place: Path) -> float:
    """What the files below `place` take; it may change meanwhile."""
    sizes = (
        os.lstat(Path(directory, name)).st_size for directory, _, names in os.walk(place) for name in names
    )
    with suppress(OSError):
        return sum(sizes) / 1e6
    return 0.0
