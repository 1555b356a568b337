"""`outlast model-script`: a scripted model server, for trying things without a key."""

from pathlib import Path

import click

from outlast.testing.models.program import run as serve


@click.command("model-script")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=0, help="0: any free one; the address is printed.")
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="Append every request to this file."
)
def model_script(file: Path, host: str, port: int, log: Path | None) -> None:
    """Serve the model that FILE scripts, in the Anthropic dialect, until Ctrl-C."""
    serve(file, host, port, log)
