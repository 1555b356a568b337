"""Commands that only look: ls, show, log, follow."""

import click
import msgspec

from outlast.cli.options import Setup, perform, shared
from outlast.cli.printer import Printer, follow_turn, outcome_code
from outlast.cli.text import head_line, record_line, session_text
from outlast.codec import decode_records
from outlast.session import Session


@click.command()
@click.option("--limit", default=50, show_default=True, help="How many, newest change first.")
@shared
def ls(limit: int, world: str | None, json: bool) -> None:
    """List the sessions."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            page = await opened.list(limit=limit)
            if json:
                for head in page.sessions:
                    setup.say(head, "")
                return
            if not page.sessions:
                click.echo(f'No sessions in {opened.name}. Begin one: outlast run claude-code "your prompt"')
            for head in page.sessions:
                click.echo(head_line(head))
            if page.next:
                click.echo(f"… more: outlast ls --limit {limit * 2}")

    perform(body, world=world, json=json)


@click.command()
@click.argument("session")
@shared
def show(session: str, world: str | None, json: bool) -> None:
    """Show how SESSION stands: its open turn with every call, or how the last one ended."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            head, state = await found.head(), await found.state()
            result = None if state.last is None else await found.value(state.last.result)
            setup.say({"head": head, "state": state, "result": result}, session_text(head, state, result))

    perform(body, world=world, json=json)


@click.command()
@click.argument("session")
@click.option("--after", default=0, help="Only commits above this number.")
@shared
def log(session: str, after: int, world: str | None, json: bool) -> None:
    """Print the log of SESSION: every commit with its records."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            await opened.get(session)
            at = after
            while page := await opened.commits(session, at, 500):
                for commit in page:
                    header = commit.header
                    at = header.seq
                    records = decode_records(commit.body, session=session, seq=at, format=header.format)
                    for index, record in enumerate(records):
                        entry = {"seq": at, "index": index, "fence": header.fence, "record": record}
                        setup.say(entry, record_line(at, index, header.fence, record))

    perform(body, world=world, json=json)


@click.command()
@click.argument("session")
@click.option("--after", default="0.0", show_default=True, metavar="CURSOR", help="Go on after this cursor.")
@click.option("--until-idle", is_flag=True, help="End when no turn is open any more.")
@shared
def follow(session: str, after: str, until_idle: bool, world: str | None, json: bool) -> None:
    """Watch SESSION: what happened after CURSOR, then whatever comes. Ctrl-C stops watching, not the session."""

    async def body(setup: Setup) -> int | None:
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            if json:
                async for event in found.follow(after):
                    click.echo(msgspec.json.encode(event).decode())
                    if until_idle and event.kind in {"turn.settled", "turn.parked"}:
                        return outcome_code(event.status)
                return None
            printer = Printer(title=session)
            return await follow_turn(found, printer, after, until_settled=until_idle)

    perform(body, world=world, json=json)
