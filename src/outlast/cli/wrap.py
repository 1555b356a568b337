"""`outlast wrap`: the user's own interactive program, in its own terminal, with each of its calls in the log."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
import click

from outlast.cli.exits import guarded
from outlast.cli.lazy import loaded
from outlast.cli.options import SESSION, examples, setup_of
from outlast.cli.wishes import WrapWish
from outlast.cli.work import become_supervisor
from outlast.engine.deadlines import claim_supervision
from outlast.errors import BadInput

WRAPPED: Final[Mapping[str, str]] = {
    "claude": "claude-code",
    "codex": "codex",
    "opencode": "opencode",
    "pi": "pi",
}
"""What can be wrapped, by the name of its program: the agent that it belongs to."""
NEWEST: Final = "newest"


@click.command(
    epilog=examples(
        "outlast wrap -- claude",
        "outlast wrap --session pricing -- codex --model gpt-5.5",
        "outlast wrap --resume                        # after a crash, in the same directory",
        "outlast wrap --resume pricing",
    )
)
@click.option(
    "--session", "name", type=SESSION, help="The id of the new session; by default made from a word."
)
@click.option(
    "--resume",
    type=SESSION,
    is_flag=False,
    flag_value=NEWEST,
    help="Bring this session back, or the newest that was wrapped in this directory.",
)
@click.option("--world", metavar="URL", help="The World to use, in place of OUTLAST_WORLD.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM [FLAGS]...")
def wrap(name: str | None, resume: str | None, world: str | None, command: tuple[str, ...]) -> None:
    """Start a coding agent in this terminal, as always, with every model call and tool call in a durable log.

    Each prompt that you type becomes a turn. Kill all of it, and `--resume` first carries the turn that was cut short
    to its end, from its last finished call, and then shows the conversation again.

    `claude`, `codex`, `opencode` and `pi` can be wrapped. It is the program that outlast has installed, in the
    version that was tested; flags that would take it or its session out of our hands are refused.
    """

    def body() -> int:
        if bool(command) == (resume is not None):
            raise BadInput(
                detail="Give what to start (`outlast wrap -- claude`), or --resume, one of the two."
            )
        program = Path(command[0]).name if command else ""
        if command and program not in WRAPPED:
            raise BadInput(detail=_not_wrapped(program))
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise BadInput(
                detail="There is no terminal here. Without one, `outlast run` carries a prompt out."
            )
        supervision = claim_supervision(os.environ)
        setup = setup_of(world=world, json=False)
        wish = WrapWish(program, WRAPPED.get(program, ""), command[1:], name, resume)
        if supervision is None:
            become_supervisor(setup)
        attend = loaded("outlast.cli.wrapped:attend")
        return anyio.run(attend, setup, replace(wish, supervision=supervision))

    guarded(body, json=False)


def _not_wrapped(program: str) -> str:
    able = ", ".join(f"`{one}`" for one in WRAPPED)
    return f"{program!r} cannot be wrapped. What can: {able}."
