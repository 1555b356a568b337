"""`outlast follow`: watch a session."""

import click

from outlast.cli.drawing import Drawing
from outlast.cli.exits import Exit, outcome_code
from outlast.cli.options import SESSION, Setup, examples, perform, shared
from outlast.cli.watching import may_end, show, sink_of, ticking, until_idle
from outlast.picturing import picture_of
from outlast.session import Session
from outlast.world import START, Cursor


@click.command(
    epilog=examples("outlast follow pricing-3f2a", "outlast follow pricing-3f2a --json --after 12.3")
)
@click.argument("session", type=SESSION)
@click.option(
    "--after",
    metavar="CURSOR",
    help="Go on after this cursor, as events carry it; by default from the start.",
)
@click.option("--new", is_flag=True, help="Only what comes from now on.")
@click.option(
    "--until-idle",
    "ends",
    is_flag=True,
    help="End when no turn is open and none is queued, or the open one waits for a person or a signal.",
)
@click.option(
    "--waterfall", "lines", is_flag=True, help="Print the waterfall of each turn, also into a file."
)
@shared
def follow(
    session: str, after: str | None, new: bool, ends: bool, lines: bool, world: str | None, json: bool
) -> None:
    """Watch SESSION: what happened, then whatever comes. Ctrl-C stops the watching, not the session.

    Reading may stop anywhere: `--after` with the cursor of the last event goes on behind it, and nothing comes twice.
    A terminal shows the turn's waterfall as it grows: attempts, lanes and calls, and what the log has saved.
    With `--until-idle` the exit status tells how the last turn ended.
    """
    if new and after is not None:
        raise click.UsageError("--new and --after exclude each other.")

    async def body(setup: Setup) -> int | None:
        cursor = START if after is None else Cursor.parse(after)
        code = Exit.OK
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            if new:
                cursor = Cursor.behind((await found.head()).seq)
            past = None if cursor == START or setup.json else await picture_of(found, details=0)
            drawing = Drawing(setup.clock, None if past is None else past.timeline, lines=lines)
            sink = sink_of(setup, session, drawing=drawing)
            source = until_idle(found, cursor) if ends else found.follow(cursor)
            with sink:
                async with ticking(sink):
                    async for event in show(found, source, sink):
                        if may_end(event):
                            code = outcome_code(event.status)
        return code

    perform(body, world=world, json=json)
