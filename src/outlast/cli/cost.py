"""`outlast cost`: what sessions have cost, what their logs have saved, and what they take up."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, cast

import click
import msgspec

from outlast.cli.options import SESSION, Setup, examples, perform, shared
from outlast.cli.text import dollars, plain
from outlast.costs import Avoided, Cost, Counting, SessionCost
from outlast.errors import OutlastError
from outlast.fold import records_of
from outlast.records import Usage
from outlast.session import Session
from outlast.tally import tokens
from outlast.world import SessionHead, Stored, World
from outlast.world.commit import DAY_S

_PAGE: Final = 200
By: TypeAlias = Literal["session", "turn", "day"]
_SPENT: Final = ("calls", "input", "cached", "written", "output", "cost", "model", "tools")
_SAVED: Final = ("resumed", "start over", "effects", "--continue", "effects")
_HEADS: Final[dict[By, Sequence[str]]] = {
    "session": ("session", *_SPENT, *_SAVED, "stored"),
    "turn": ("session", "turn", *_SPENT, *_SAVED),
    "day": ("day", "input", "cached", "written", "output", "cost"),
}


@click.command(
    epilog=examples(
        "outlast cost",
        "outlast cost pricing-3f2a --by turn",
        "outlast cost --by day --json | jq .usage.cost_usd",
    )
)
@click.argument("sessions", nargs=-1, type=SESSION, metavar="[SESSION]...")
@click.option(
    "--by",
    type=click.Choice(["session", "turn", "day"]),
    default="session",
    show_default=True,
    help="A line for each session, each turn, or each day (UTC) of all together.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Without SESSION: of so many, newest change first.",
)
@shared
def cost(sessions: tuple[str, ...], by: str, limit: int, world: str | None, json: bool) -> None:
    """Show what sessions have cost, what their logs have saved, and the bytes that they take up.

    Tokens and money are those of model calls, as the log has them; model and tools are the time of calls. Whenever
    another attempt went on with an open turn, the log saved what had been done until then: all of it against starting
    over, and against the harness's own `--continue`, by an estimate, what it had not written down itself. Effects are
    calls that are not `safe` and would have been made a second time.
    """
    chosen = cast("By", by)

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = [row async for row in _costs(opened, sessions, limit)]
            shown = _days(found) if chosen == "day" else _rows(found, chosen)
            if json:
                for value in (*(value for value, _ in shown), _total(found)[0]):
                    setup.say(value, "")
            elif not shown:
                click.echo(f"Nothing has cost anything in {opened.name} yet.", err=True)
            else:
                lines = [line for _, line in shown]
                total = _total(found)[1][chosen]
                click.echo("\n".join(table(_HEADS[chosen], lines, total)))
            if not sessions and len(found) == limit and not json:
                click.echo(f"… there may be more: outlast cost --limit {limit * 2}", err=True)

    perform(body, world=world, json=json)


class _Found(msgspec.Struct, frozen=True):
    session: str
    agent: str
    cost: SessionCost
    stored: Stored


async def _costs(world: World, sessions: Sequence[str], limit: int) -> AsyncGenerator[_Found]:
    if sessions:
        for name in dict.fromkeys(sessions):
            yield await _cost(world, await (await Session.find(world, name)).head())
        return
    left, after = limit, None
    while left > 0:
        page = await world.list(after=after, limit=min(_PAGE, left))
        for head in page.sessions:
            try:
                yield await _cost(world, head)
            except OutlastError as error:  # one whose log cannot be read must not hide the others
                click.echo(f"{head.session}: {plain(str(error))}", err=True)
        left, after = left - len(page.sessions), page.next
        if after is None:
            return


async def _cost(world: World, head: SessionHead) -> _Found:
    counting, at = Counting(), 0
    while page := await world.commits(head.session, at, _PAGE):
        for commit in page:
            at = commit.header.seq
            counting.take(commit, records_of(head.session, commit))
    return _Found(head.session, head.agent, counting.result(), await world.stored(head.session))


Row: TypeAlias = tuple[dict[str, Any], Sequence[str]]
"""As JSON, and as the cells of a line."""


def _rows(found: Sequence[_Found], by: By) -> list[Row]:
    if by == "session":
        return [
            (
                {
                    "of": "session",
                    "session": one.session,
                    "agent": one.agent,
                    **_json(one.cost.whole),
                    **_stored(one.stored),
                },
                (one.session, *_cells(one.cost.whole), _bytes(one.stored.bytes)),
            )
            for one in found
        ]
    return [
        (
            {
                "of": "turn",
                "session": one.session,
                "turn": turn.turn,
                "status": turn.status,
                "opened_s": turn.opened_s,
                **_json(turn.cost),
            },
            (one.session, f"{turn.turn} {turn.status}", *_cells(turn.cost)),
        )
        for one in found
        for turn in one.cost.turns
    ]


def _days(found: Sequence[_Found]) -> list[Row]:
    days: dict[int, Usage] = {}
    for one in found:
        for day, usage in one.cost.days.items():
            days[day] = days.get(day, Usage()) + usage
    rows: list[Row] = []
    for day in sorted(days):
        date = datetime.fromtimestamp(day * DAY_S, UTC).strftime("%Y-%m-%d")
        value = {"of": "day", "date": date, "usage": days[day], "tokens": tokens(days[day])}
        rows.append((value, (date, *_used(days[day]))))
    return rows


def _total(found: Sequence[_Found]) -> tuple[dict[str, Any], dict[By, Sequence[str]]]:
    """As JSON, and as cells for each kind of table."""
    whole = sum((one.cost.whole for one in found), start=Cost())
    stored = [one.stored for one in found]
    parts = {name: sum(getattr(one, name) for one in stored) for name in Stored.__dataclass_fields__}
    value = {"of": "total", "sessions": len(found), **_json(whole), **_stored(Stored(**parts))}
    cells = _cells(whole)
    lines: dict[By, Sequence[str]] = {
        "session": ("total", *cells, _bytes(Stored(**parts).bytes)),
        "turn": ("total", "", *cells),
        "day": ("total", *_used(whole.usage)),
    }
    return value, lines


def _json(cost: Cost) -> dict[str, Any]:
    return {
        "usage": cost.usage,
        "tokens": tokens(cost.usage),
        "void": cost.void,
        "model_calls": cost.model_calls,
        "tool_calls": cost.tool_calls,
        "model_s": round(cost.model_s, 4),
        "tool_s": round(cost.tool_s, 4),
        "takeovers": cost.takeovers,
        "saved_against_starting_over": _avoided(cost.start_over),
        "saved_against_own_continue": {**_avoided(cost.own_continue), "estimate": True},
    }


def _avoided(saved: Avoided) -> dict[str, Any]:
    work = saved.work
    return {
        "usage": work.usage,
        "tokens": tokens(work.usage),
        "model_calls": work.model_calls,
        "tool_calls": work.tool_calls,
        "model_s": round(work.model_s, 4),
        "tool_s": round(work.tool_s, 4),
        "effects": saved.effects,
    }


def _stored(stored: Stored) -> dict[str, Any]:
    return {"stored": {**msgspec.to_builtins(stored), "bytes": stored.bytes}}


def _cells(cost: Cost) -> list[str]:
    over, own = cost.start_over, cost.own_continue
    return [
        f"{cost.model_calls + cost.tool_calls:,}",
        *_used(cost.usage),
        f"{cost.model_s:,.1f} s",
        f"{cost.tool_s:,.1f} s",
        f"{cost.takeovers:,}",
        dollars(over.work.usage.cost_usd),
        f"{over.effects:,}",
        dollars(own.work.usage.cost_usd),
        f"{own.effects:,}",
    ]


def _used(usage: Usage) -> list[str]:
    kinds = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    return [*(f"{count:,}" for count in kinds), dollars(usage.cost_usd)]


def _bytes(count: int) -> str:
    for limit, unit, size in ((10_000, "B", 1), (10_000_000, "kB", 1000), (10_000_000_000, "MB", 1_000_000)):
        if count < limit:
            return f"{count / size:,.0f} {unit}"
    return f"{count / 1_000_000_000:,.0f} GB"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], total: Sequence[str]) -> Iterable[str]:
    """Aligned lines: names to the left, figures to the right, the total last."""
    lines = [head, *rows, total]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    left = {at for at, name in enumerate(head) if name in {"session", "turn", "day"}}
    for line in lines:
        cells = [
            text.ljust(width) if at in left else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
