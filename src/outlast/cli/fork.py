"""`outlast fork`: a session that goes on from the past of another."""

from pathlib import Path

import click

from outlast.cli.machine import machine_id
from outlast.cli.options import SESSION, Setup, examples, perform, shared
from outlast.errors import BadInput
from outlast.session import Session
from outlast.workspaces.local import local


@click.command(
    epilog=examples(
        "outlast fork pricing-3f2a",
        "outlast fork pricing-3f2a --turn 4 --id pricing-again",
        "outlast fork pricing-3f2a --at 211 --cwd ../shop-2",
    )
)
@click.argument("session", type=SESSION)
@click.option("--at", type=click.IntRange(1), help="The last commit that it shares; by default the newest.")
@click.option("--turn", type=click.IntRange(1), help="Instead: as it was before this turn was begun.")
@click.option("--id", "name", help="Of the fork: the same id again is the same fork.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory of this machine for it to work in, in place of where SESSION works.",
)
@shared
def fork(
    session: str,
    at: int | None,
    turn: int | None,
    name: str | None,
    cwd: Path | None,
    world: str | None,
    json: bool,
) -> None:
    """Open a session that has the past of SESSION up to a commit, and goes on by itself.

    SESSION is not changed and may be at work meanwhile. An open turn goes on in both: nothing that is finished is asked
    for again, and a tool whose effect may have happened is left to SESSION. Prompts that wait and schedules are
    SESSION's alone. Numbers of commits are those of `outlast log`.
    """

    async def body(setup: Setup) -> None:
        if at is not None and turn is not None:
            raise BadInput(detail="A fork is at a commit or before a turn: give one of --at and --turn.")
        place = None if cwd is None else local(cwd, host=machine_id(setup.settings.data))
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            made = await found.fork(at, before_turn=turn, id=name, workspace=place)
            state = await made.state()
            shared_to = 0 if state.forked is None else state.forked.at
            where = "" if state.opened is None else state.opened.cwd
            shares = state.opened is not None and state.opened.workspace.get("kind") == "local"
            if state.turn is not None:
                await setup.wake(opened.tenant, made.id)
            text = f"{made.id} is a fork of {session} at commit {shared_to}"
            if place is None and shares and json is False:
                note = f"Both work in {where}. Give --cwd to let the fork work elsewhere."
                click.echo(f"outlast: {note}", err=True)
            facts = {"session": made.id, "source": session, "at": shared_to, "cwd": where}
            setup.say({**facts, "turn_open": state.turn is not None}, text)

    perform(body, world=world, json=json)
