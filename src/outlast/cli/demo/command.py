"""`outlast demo`."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
import msgspec

from outlast.cli.demo import plot_claude_code, plot_python
from outlast.cli.demo.play import OWN_WORLD, Scene, play
from outlast.cli.demo.plot import Plot
from outlast.cli.demo.receipt import receipt_text
from outlast.cli.exits import Exit
from outlast.cli.extras import fetch
from outlast.cli.options import Setup, examples, perform

PLOTS: Final[Mapping[str, Plot]] = {"claude-code": plot_claude_code.PLOT, "python": plot_python.PLOT}


@click.command(epilog=examples("outlast demo", "outlast demo --harness python --json"))
@click.option(
    "--harness",
    type=click.Choice(list(PLOTS)),
    default="claude-code",
    show_default=True,
    help="Who is killed: the real Claude Code program, or a loop of one's own.",
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
    """Watch a turn outlive three kill -9: of the real Claude Code, or of a loop of one's own.

    Two workers, one turn, and SIGKILL for whoever advances it: while the model streams, while a tool runs that must
    not run twice, and between two calls. A loop also waits for a signal, and no worker holds its session meanwhile.
    Needs no key: the model is scripted. The exit status is 1 if a promise broke.
    """

    async def body(setup: Setup) -> int:
        plot = PLOTS[harness]
        with tempfile.TemporaryDirectory(prefix="outlast-demo-") as temporary:
            directory = (keep or Path(temporary)).absolute()
            directory.mkdir(parents=True, exist_ok=True)
            scene = Scene(plot, directory, world, real=real, keep=keep is not None)
            scene.check()
            fetch(plot.extra)
            receipt = await play(setup, scene)
        click.echo(msgspec.json.encode(receipt).decode() if json else receipt_text(receipt))
        return Exit.OK if receipt.ok else Exit.FAILED

    perform(body, world=None, json=json)
