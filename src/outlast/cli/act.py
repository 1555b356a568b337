"""Commands that put something into a session's inbox, or remove it: send, steer, cancel, rm."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from outlast.attaching import Attachment
from outlast.cli.options import ATTACH, PRIORITY, SESSION, Setup, examples, given, perform, shared
from outlast.erasing import check_may_be_erased, erase
from outlast.errors import (
    BadInput,
    TurnUnknown,
)
from outlast.session import Session
from outlast.world import SessionHead


@click.command(
    epilog=examples(
        'outlast send pricing-3f2a "Now write the changelog"',
        "outlast send pricing-3f2a - --id ticket-81 < prompt.md",
        'outlast send pricing-3f2a "The shop is down" --priority 10',
        'outlast send pricing-3f2a "What is wrong here?" --attach screen.png',
    )
)
@click.argument("session", type=SESSION)
@click.argument("text")
@click.option("--id", "input_id", help="Your own id: the same id and content again is the same turn.")
@click.option("--priority", type=PRIORITY, help="Of the session from now on, from -100 to 100.")
@ATTACH
@click.option("--if-idle", is_flag=True, help="Refuse it while another turn is open or waits.")
@shared
def send(
    session: str,
    text: str,
    input_id: str | None,
    priority: int | None,
    attach: tuple[Path, ...],
    if_idle: bool,
    world: str | None,
    json: bool,
) -> None:
    """Send SESSION its next prompt; with `-` as TEXT, what standard input holds.

    It is durable when this returns, and queues behind a turn that runs, unless --if-idle. A worker carries it out:
    some `outlast work` that runs already, or the next one.
    """

    async def body(setup: Setup) -> None:
        prompt, files = given(text), [Attachment.read(path) for path in attach]
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            busy = "refuse" if if_idle else "queue"
            turn = await found.send(prompt, id=input_id, priority=priority, busy=busy, attachments=files)
            await setup.wake(opened.tenant, session)
            setup.say({"session": session, "input": turn.input}, f"sent to {session} as {turn.input}")

    perform(body, world=world, json=json)


@click.command(epilog=examples('outlast steer pricing-3f2a "Use the existing layout"'))
@click.argument("session", type=SESSION)
@click.argument("text")
@click.option("--id", "input_id", help="Your own id: repeating it changes nothing.")
@shared
def steer(session: str, text: str, input_id: str | None, world: str | None, json: bool) -> None:
    """Tell the running turn of SESSION something; with `-` as TEXT, what standard input holds.

    It is taken up at the turn's next model call. If the turn never takes it, it is the next prompt.
    """

    async def body(setup: Setup) -> None:
        said = given(text)
        async with setup.world() as opened:
            taken = await (await Session.find(opened, session)).steer(said, id=input_id)
            setup.say({"session": session, "input": taken}, f"steered {session} with {taken}")

    perform(body, world=world, json=json)


@click.command()
@click.argument("session", type=SESSION)
@click.option("--turn", type=click.IntRange(1), help="Only if this turn is the open one.")
@click.option("--reason", default="", help="Why, for the log.")
@shared
def cancel(session: str, turn: int | None, reason: str, world: str | None, json: bool) -> None:
    """End the open turn of SESSION, also one that is stuck or diverged.

    The worker that advances it carries this out at once; where none does, the next `outlast work`. A prompt that
    waits behind the turn is begun then.
    """

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            state = (await found.state()).turn
            if state is None or turn not in {None, state.turn}:
                raise TurnUnknown(session=session, turn="open" if turn is None else f"{turn} that is open")
            number = await found.cancel(state.turn, reason=reason)
            await setup.wake(opened.tenant, session)
            setup.say({"session": session, "turn": number}, f"turn {number} of {session} will be cancelled")

    perform(body, world=world, json=json)


@click.command()
@click.argument("sessions", type=SESSION, nargs=-1, required=True, metavar="SESSION...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--force", is_flag=True, help="Also sessions whose turn is open; a worker that advances one stops."
)
@shared
def rm(sessions: tuple[str, ...], yes: bool, force: bool, world: str | None, json: bool) -> None:
    """Erase SESSIONs for good: log, blobs, and what outlast kept of them on this machine.

    The ids are never used again. Nothing is erased unless all of them can be. The directory that an agent worked in
    is yours and stays.
    """

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            heads = [await (await Session.find(opened, session)).head() for session in sessions]
            for head in heads:
                check_may_be_erased(head, force=force)
            if not yes:
                _ask(heads)
            for head in heads:
                for left in await erase(opened, head.session, setup.settings.data, setup.clock):
                    click.echo(f"outlast: {left}", err=True)
                setup.say({"erased": head.session}, f"erased {head.session}")

    perform(body, world=world, json=json)


def _ask(heads: Sequence[SessionHead]) -> None:
    if not sys.stdin.isatty():
        raise BadInput(detail="There is no terminal to ask on. Give --yes to erase without a question.")
    for head in heads:
        click.echo(f"{head.session}   {head.status}", err=True)
    click.confirm("Erase for good?", abort=True, err=True)
