"""`outlast demo`."""

import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
import msgspec

from outlast.cli.demo.play import OWN_WORLD, Scene, play
from outlast.cli.demo.plot import Plot
from outlast.cli.demo.receipt import receipt_text
from outlast.cli.exits import Exit
from outlast.cli.extras import Extra, fetch
from outlast.cli.install import show_progress
from outlast.cli.installing import install
from outlast.cli.lazy import loaded
from outlast.cli.options import Setup, examples, perform
from outlast.errors import BadInput

PLOTS: Final[Mapping[str, str]] = {
    "claude-code": "cast_claude_code",
    "codex": "cast_codex",
    "opencode": "cast_opencode",
    "pi": "cast_pi",
    "python": "plot_python",
}
"""Harnesses, and the module beside this one that holds the `PLOT` of each."""

SERVER: Final = Extra("server", ("jwt", "prometheus_client"), "what the server needs", "some 10 MB")


def plot_of(harness: str) -> Plot:
    """The story that is played with a harness."""
    return importlib.import_module(f"outlast.cli.demo.{PLOTS[harness]}").PLOT


def _fetch(plot: Plot) -> None:
    """Bring along what plays in it."""
    if plot.extra is not None:
        fetch(plot.extra)
    if plot.program:
        install(plot.program, show_progress)


@click.command(
    epilog=examples("outlast demo", "outlast demo --harness python --json", "outlast demo --story pricing")
)
@click.option(
    "--harness",
    type=click.Choice(list(PLOTS)),
    default="claude-code",
    show_default=True,
    help="Who is killed: a real program, or a loop of one's own.",
)
@click.option(
    "--story",
    type=click.Choice(["kills", "pricing"]),
    default="kills",
    show_default=True,
    help="`pricing`: a pull request by Claude Code, whose function's time is over, in three ways side by side.",
)
@click.option("--page", is_flag=True, help="With `--story pricing`: show it in the page too, until Ctrl-C.")
@click.option(
    "--real", is_flag=True, help="Use the real provider of your environment instead of the scripted model."
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the demo's files in this directory, and its session in --world.",
)
@click.option(
    "--world",
    default=OWN_WORLD,
    metavar="URL",
    help="The World to play in; by default a file of its own. Its session is erased at the end.",
)
@click.option("--json", is_flag=True, help="End with one JSON object; the story goes to standard error.")
def demo(harness: str, story: str, page: bool, real: bool, keep: Path | None, world: str, json: bool) -> None:
    """Watch a turn outlive three kill -9: of a real harness, or of a loop of one's own.

    Two workers, one turn, and SIGKILL for whoever advances it: while the model streams, while a tool runs that must
    not run twice, and between two calls. A loop also waits for a signal, and no worker holds its session meanwhile.
    Needs no key: the model is scripted. The exit status is 1 if a promise broke.

    `--story pricing` shows a larger piece of work, in three panes: Claude Code adds a page to a small web application,
    pushes it, opens a pull request and waits for CI, and just then the time of its function is over. It is started
    over, or continued by its own means, or outlives that with outlast; what each has cost is told at the end.
    """

    async def body(setup: Setup) -> int:
        if story == "pricing":
            return await _pricing(setup, harness, keep, page=page, real=real, world=world)
        plot = plot_of(harness)
        with tempfile.TemporaryDirectory(prefix="outlast-demo-") as temporary:
            directory = (keep or Path(temporary)).absolute()
            directory.mkdir(parents=True, exist_ok=True)
            scene = Scene(plot, directory, world, real=real, keep=keep is not None)
            scene.check()
            _fetch(plot)
            receipt = await play(setup, scene)
        click.echo(msgspec.json.encode(receipt).decode() if json else receipt_text(receipt))
        return Exit.OK if receipt.ok else Exit.FAILED

    perform(body, world=None, json=json)


async def _pricing(
    setup: Setup, harness: str, keep: Path | None, *, page: bool, real: bool, world: str
) -> int:
    """The story of a pull request.

    Raises:
        BadInput: it is played by Claude Code alone, with a scripted model and a World of its own.
    """
    if harness != "claude-code" or real or world != OWN_WORLD:
        raise BadInput(
            detail="The story `pricing` is played by Claude Code, a scripted model, and Worlds of its own: leave out "
            "--harness, --real and --world."
        )
    _fetch(plot_of(harness))
    fetch(SERVER)
    with tempfile.TemporaryDirectory(prefix="outlast-demo-") as temporary:
        directory = (keep or Path(temporary)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        performed = await loaded("outlast.cli.demo.pricing.performance:perform_pricing")(
            setup, directory, page=page
        )
    return Exit.OK if performed else Exit.FAILED
