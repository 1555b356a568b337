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
from outlast.cli.extras import fetch
from outlast.cli.install import show_progress
from outlast.cli.installing import install
from outlast.cli.options import Setup, examples, perform

PLOTS: Final[Mapping[str, str]] = {
    "claude-code": "cast_claude_code",
    "codex": "cast_codex",
    "opencode": "cast_opencode",
    "pi": "cast_pi",
    "python": "plot_python",
}
"""Harnesses, and the module beside this one that holds the `PLOT` of each."""


def plot_of(harness: str) -> Plot:
    """The story that is played with a harness."""
    return importlib.import_module(f"outlast.cli.demo.{PLOTS[harness]}").PLOT


def _fetch(plot: Plot) -> None:
    """Bring along what plays in it."""
    if plot.extra is not None:
        fetch(plot.extra)
    if plot.program:
        install(plot.program, show_progress)


@click.command(epilog=examples("outlast demo", "outlast demo --harness python --json"))
@click.option(
    "--harness",
    type=click.Choice(list(PLOTS)),
    default="claude-code",
    show_default=True,
    help="Who is killed: a real program, or a loop of one's own.",
)
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
def demo(harness: str, real: bool, keep: Path | None, world: str, json: bool) -> None:
    """Watch a turn outlive three kill -9: of a real harness, or of a loop of one's own.

    Two workers, one turn, and SIGKILL for whoever advances it: while the model streams, while a tool runs that must
    not run twice, and between two calls. A loop also waits for a signal, and no worker holds its session meanwhile.
    Needs no key: the model is scripted. The exit status is 1 if a promise broke.
    """

    async def body(setup: Setup) -> int:
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
