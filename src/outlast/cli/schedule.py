"""`outlast schedule`: prompts that come at a time, or again and again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import click

from outlast.cli.durations import DURATION
from outlast.cli.options import SESSION, Setup, examples, given, perform, shared
from outlast.cli.text import moment, plain, short
from outlast.errors import BadInput, NotFound
from outlast.planning import Planned
from outlast.records.agenda import Missed, Overlap
from outlast.session import Session


class Moment(click.ParamType[datetime]):
    """A moment in the person's own time zone, unless it says another."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """What ISO 8601 says."""
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no moment; write 2027-03-01T02:30 or 2027-03-01T02:30+01:00", param, ctx)
        return found if found.tzinfo is not None else found.astimezone()


@click.command(
    epilog=examples(
        'outlast schedule triage "Look through the new issues" --cron "30 2 * * 1-5" --zone Europe/Berlin --id nightly',
        'outlast schedule triage "Look again" --at 2027-03-01T09:00',
        "outlast schedule triage - --every 1h < prompt.md",
        "outlast schedule triage --list",
        "outlast schedule triage --remove nightly",
    )
)
@click.argument("session", type=SESSION)
@click.argument("prompt", required=False)
@click.option(
    "--at", type=Moment(), help="Once, at this moment, of your own time zone unless it says another."
)
@click.option("--every", type=DURATION, help="Again and again, so long after one another, as 90m or 1d.")
@click.option("--cron", help="As cron says it: minute hour day month weekday.")
@click.option("--zone", default="", help="Where --cron is meant, as Europe/Berlin. Default: UTC.")
@click.option(
    "--overlap",
    type=click.Choice(["queue", "skip"]),
    default="queue",
    show_default=True,
    help="While a turn is open: wait behind it, one at most, or be left out.",
)
@click.option(
    "--missed",
    type=click.Choice(["once", "skip"]),
    default="once",
    show_default=True,
    help="Of times without a worker: the newest comes, late, or none does.",
)
@click.option(
    "--id", "name", help="Your own name for it: the same again changes nothing, another replaces it."
)
@click.option("--list", "listing", is_flag=True, help="Show what is scheduled, and change nothing.")
@click.option("--remove", metavar="ID", help="Let this schedule come no more.")
@shared
def schedule(
    session: str,
    prompt: str | None,
    name: str | None,
    *,
    listing: bool,
    remove: str | None,
    world: str | None,
    json: bool,
    **when: Any,
) -> None:
    """Send SESSION a PROMPT at a time, or again and again; with `-` as PROMPT, what standard input holds.

    It is durable when this returns. A worker sends it when the time has come: some `outlast work` that runs then, or
    the next one.
    """

    async def body(setup: Setup) -> None:
        _check(prompt, listing=listing, remove=remove)
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            if listing:
                _show(setup, await found.schedules())
            elif remove is not None:
                await _remove(setup, found, remove)
            else:
                await _set(setup, found, given(prompt or ""), name, when)

    perform(body, world=world, json=json)


def _check(prompt: str | None, *, listing: bool, remove: str | None) -> None:
    """Raises BadInput: it says nothing, or more than one thing."""
    if [prompt is not None, listing, remove is not None].count(True) != 1:
        raise BadInput(detail="Say one of: a PROMPT with --at, --every or --cron; --list; --remove ID.")


async def _set(setup: Setup, session: Session, prompt: str, name: str | None, when: dict[str, Any]) -> None:
    taken = await session.schedule(
        prompt,
        at=when["at"],
        every=when["every"],
        cron=when["cron"],
        zone=when["zone"],
        overlap=cast("Overlap", when["overlap"]),
        missed=cast("Missed", when["missed"]),
        id=name,
    )
    stands = next((one for one in await session.schedules() if one.id == taken), None)
    due = "it has come already" if stands is None else f"next at {moment(stands.due_s)}"
    value = {"session": session.id, "schedule": taken, "due_s": None if stands is None else stands.due_s}
    setup.say(value, f"scheduled for {session.id} as {taken}; {due}")


async def _remove(setup: Setup, session: Session, name: str) -> None:
    if all(one.id != name for one in await session.schedules()):
        raise NotFound(detail=f"Session {session.id} has no schedule {name}. `--list` shows those it has.")
    await session.unschedule(name)
    setup.say({"session": session.id, "removed": name}, f"{name} of {session.id} comes no more")


def _show(setup: Setup, found: Sequence[Planned]) -> None:
    for one in found:
        text = one.prompt.value() if not one.prompt.ref else f"a prompt of {one.prompt.size} bytes"
        value = {
            "schedule": one.id,
            "due_s": one.due_s,
            "every_s": one.every_s,
            "cron": one.cron,
            "zone": one.zone,
            "overlap": one.overlap,
            "missed": one.missed,
            "seen": one.seen,
            "prompt": text,
        }
        setup.say(value, f"{plain(one.id)}   {moment(one.due_s)}   {_rhythm(one)}   {short(str(text), 60)}")
    if not found and not setup.json:
        click.echo("nothing is scheduled")


def _rhythm(one: Planned) -> str:
    if one.every_s:
        return f"every {one.every_s:g} s"
    return f"cron {one.cron} {one.zone or 'UTC'}" if one.cron else "once"
