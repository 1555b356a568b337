"""Commands that put something into a session's inbox, or remove it: send, steer, cancel, rm."""

import click

from outlast.cli.options import Setup, perform, shared
from outlast.errors import NotIdle
from outlast.session import Session


@click.command()
@click.argument("session")
@click.argument("text")
@click.option("--id", "input_id", help="Your own id: the same id and text again is the same turn.")
@shared
def send(session: str, text: str, input_id: str | None, world: str | None, json: bool) -> None:
    """Send SESSION a prompt. It queues behind a turn that runs; a worker carries it out."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            turn = await (await Session.find(opened, session)).send(text, id=input_id)
            setup.say({"session": session, "input": turn.input}, f"sent to {session} as {turn.input}")

    perform(body, world=world, json=json)


@click.command()
@click.argument("session")
@click.argument("text")
@click.option("--id", "input_id", help="Your own id: repeating it changes nothing.")
@shared
def steer(session: str, text: str, input_id: str | None, world: str | None, json: bool) -> None:
    """Tell the running turn of SESSION something. If the turn never takes it, it is the next prompt."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            taken = await (await Session.find(opened, session)).steer(text, id=input_id)
            setup.say({"session": session, "input": taken}, f"steered {session} with {taken}")

    perform(body, world=world, json=json)


@click.command()
@click.argument("session")
@click.option("--turn", type=int, help="The turn to end; by default the open one.")
@click.option("--reason", default="", help="Why, for the log.")
@shared
def cancel(session: str, turn: int | None, reason: str, world: str | None, json: bool) -> None:
    """End the open turn of SESSION, also one that is stuck or diverged. A worker carries it out."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            number = await (await Session.find(opened, session)).cancel(turn, reason=reason)
            setup.say({"session": session, "turn": number}, f"turn {number} of {session} will be cancelled")

    perform(body, world=world, json=json)


@click.command()
@click.argument("session")
@click.option("--yes", is_flag=True, help="Do not ask.")
@shared
def rm(session: str, yes: bool, world: str | None, json: bool) -> None:
    """Erase SESSION: its log, files and blobs. The id is never used again."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            head = await opened.get(session)
            if head.turn_open and not yes:
                raise NotIdle(session=session, reason="its turn is open; give --yes to erase it all the same")
            if not yes and not click.confirm(f"Erase {session} ({head.status}) for good?", err=True):
                raise click.Abort
            await opened.erase(session)
            setup.say({"erased": session}, f"erased {session}")

    perform(body, world=world, json=json)
