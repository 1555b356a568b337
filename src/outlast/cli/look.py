"""Commands that only look, and come back: ls, show, usage, log."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from outlast.cli.awaited import awaited_by
from outlast.cli.listing import columns, pages, rows_of, told, what_waits
from outlast.cli.options import SESSION, Setup, examples, perform, shared
from outlast.cli.report import Report, record_line, report_json, report_text, turns_of
from outlast.cli.text import coloured, dollars
from outlast.cli.watched import watch_list
from outlast.cli.waterfall import waterfall
from outlast.errors import TurnUnknown
from outlast.fold import records_of
from outlast.picturing import picture_of
from outlast.session import Session
from outlast.tally import day_of
from outlast.timeline import LogCost
from outlast.world.commit import DAY_S, SPENT_DAYS

_PAGE = 200


@click.command(epilog=examples("outlast ls --open", "outlast ls --json | jq -r 'select(.parked) | .session'"))
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@click.option("--open", "only_open", is_flag=True, help="Only sessions whose turn is open.")
@click.option(
    "--watch", "watched", is_flag=True, help="Go on showing them as they change, until q or Ctrl-C."
)
@shared
def ls(limit: int, only_open: bool, watched: bool, world: str | None, json: bool) -> None:
    """List the sessions, newest change first: how each stands, and what it waits for.

    With `--watch` a terminal shows the list as it changes; a file, and `--json`, get each session that has changed.
    """

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            if watched:
                await watch_list(setup, opened, limit, only_open=only_open)
                return
            shown = 0
            async for heads in pages(opened, limit, only_open=only_open):
                shown += len(heads)
                awaited = await what_waits(opened, heads, setup.clock)
                if json:
                    for head in heads:
                        setup.say(told(head, awaited.get(head.session, ())), "")
                else:
                    rows = rows_of(heads, await opened.workers(), setup.clock.now(), awaited)
                    click.echo("\n".join(columns(rows)))
            if not shown and not json:
                kind = "session with an open turn" if only_open else "session"
                click.echo(f'No {kind} in {opened.name}. Begin one: outlast run claude-code "…"', err=True)
            elif shown == limit and not json:
                click.echo(f"… there may be more: outlast ls --limit {limit * 2}", err=True)

    perform(body, world=world, json=json)


@click.command()
@click.argument("session", type=SESSION)
@click.option("--turn", type=click.IntRange(1), help="Draw this turn, in place of the newest.")
@shared
def show(session: str, turn: int | None, world: str | None, json: bool) -> None:
    """Show how SESSION stands: its turns, and of the open one every attempt and call.

    Of a turn that waits it shows for what, and the command that brings it about: a signal, an answer, a decision about
    what is in doubt. Of one that is stuck or diverged it shows the evidence, and how to let it go on or end it.

    Below stands the waterfall of the newest turn: where it stopped, where another worker went on, what came from the
    log and what that saved.
    """

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            head, state = await found.head(), await found.state()
            result = None if state.last is None else await found.value(state.last.result)
            report = Report(
                head,
                state,
                await turns_of(found),
                result,
                rows_of([head], await opened.workers(), setup.clock.now(), {})[0],
                await awaited_by(found, state),
            )
            report = replace(report, **await _drawn(found, turn, setup.clock.now() if head.worker else 0.0))
            setup.say(report_json(report), report_text(report))

    perform(body, world=world, json=json)


async def _drawn(session: Session, number: int | None, now_s: float) -> dict[str, Any]:
    """The waterfall of a turn, or of the newest, for people and for programs.

    Raises:
        TurnUnknown
    """
    picture = await picture_of(session, details=number or 0)
    timeline = picture.timeline
    bar = timeline.find(number) if number else next(iter(timeline.turns[-1:]), None)
    if bar is None and number:
        raise TurnUnknown(session=session.id, turn=number)
    taken = LogCost() if bar is None else picture.by_turn.get(bar.turn, LogCost())
    width = shutil.get_terminal_size().columns
    lines = [] if bar is None else waterfall(bar, max(now_s, timeline.at_s), width, log=taken)
    told = {"turn": bar, "turn_log": taken, "saved": timeline.saved, "log": picture.log}
    return {"drawn": [coloured(line) for line in lines], "timeline": told}


@click.command(epilog=examples("outlast log pricing-3f2a | grep call_outcome"))
@click.argument("session", type=SESSION)
@click.option("--after", type=click.IntRange(0), default=0, help="Only commits above this number.")
@shared
def log(session: str, after: int, world: str | None, json: bool) -> None:
    """Print the log of SESSION: every record, one a line, with the number of its commit and its fence."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found, at = await Session.find(opened, session), after
            while page := await opened.commits(found.id, at, _PAGE):
                for commit in page:
                    header, at = commit.header, commit.header.seq
                    for index, record in enumerate(records_of(session, commit)):
                        entry = {"seq": at, "index": index, "fence": header.fence, "record": record}
                        setup.say(entry, record_line(at, index, header.fence, record))

    perform(body, world=world, json=json)


@click.command(epilog=examples("outlast usage", "outlast usage --days 7 --json"))
@click.option(
    "--days",
    type=click.IntRange(1, SPENT_DAYS),
    default=31,
    show_default=True,
    help="Today and so many days before.",
)
@shared
def usage(days: int, world: str | None, json: bool) -> None:
    """Show what the sessions have spent, by day (UTC): what the budgets of a tenant are held to."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = await opened.spent(day_of(setup.clock.now()) - days)
            for one in found:
                when = datetime.fromtimestamp(one.day * DAY_S, UTC).strftime("%Y-%m-%d")
                facts = f"{one.tokens:>14,} tokens {one.calls:>9,} calls {one.seconds:>11,.1f} s"
                setup.say(
                    {"date": when, **msgspec.to_builtins(one)}, f"{when} {dollars(one.cost_usd):>12} {facts}"
                )
            if not found:
                click.echo(f"Nothing was spent in {opened.name} in these days.", err=True)

    perform(body, world=world, json=json)
