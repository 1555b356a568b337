"""`outlast model-script`: a scripted model server, for trying things without a key."""

from pathlib import Path

import click

from outlast.cli.exits import guarded
from outlast.cli.options import examples
from outlast.errors import BadInput
from outlast.testing.models.program import run as serve


@click.command(
    "model-script",
    epilog=examples(
        "outlast model-script answers.toml --port 8080 &",
        'ANTHROPIC_BASE_URL=http://127.0.0.1:8080 outlast run claude-code "hello"',
        "OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none python my_agent.py",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="0: any free one; the address is printed.",
)
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="Append every request to this file."
)
def model_script(file: Path, host: str, port: int, log: Path | None) -> None:
    """Serve the model that FILE scripts (TOML or JSON) until Ctrl-C.

    It speaks Anthropic's Messages API and, below /v1, OpenAI's Chat Completions. When it is ready it prints one line of
    JSON with its address. No key is needed.
    """

    def body() -> None:
        try:
            serve(file, host, port, log)
        except OSError as error:
            raise BadInput(detail=f"The scripted model cannot be served: {error}") from error

    guarded(body, json=False)
