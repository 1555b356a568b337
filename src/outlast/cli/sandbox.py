"""`outlast sandbox`: the boxes that stand, and an end to them."""

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Final, cast

import click

from outlast.cli.options import Setup, examples, perform, shared
from outlast.cli.text import age, plain
from outlast.errors import BadInput, NotFound, OutlastError, SandboxUnsupported
from outlast.plugins import brought
from outlast.sandbox import Found, OpenProvider, SandboxProvider

GROUP: Final = "outlast.sandboxes"


@click.group()
def sandbox() -> None:
    """List the boxes that sandboxes stand in, and end them."""


@sandbox.command(
    "ls",
    short_help="List the boxes that stand.",
    epilog=examples("outlast sandbox ls", "outlast sandbox ls --label session=pricing-3f2a --json"),
)
@click.option("--provider", help="Only those of this provider; by default of every one that is installed.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Only those with this label.")
@shared
def ls_(provider: str | None, labels: tuple[str, ...], world: str | None, json: bool) -> None:
    """List the boxes that stand, whether a worker holds them or not: provider, name, how it stands, age and labels.

    Of a provider on this machine they are those below the data directory.
    """

    async def body(setup: Setup) -> None:
        wanted, shown = _labels(labels), 0
        async for of, found in _boxes(setup, provider, wanted):
            shown += 1
            value = {
                "provider": of.name,
                "name": found.name,
                "state": found.state,
                "age_s": found.age_s,
                "labels": dict(found.labels),
                "ref": dict(found.ref),
            }
            setup.say(value, _line(of.name, found))
        if not shown and not json:
            click.echo("No box stands.", err=True)

    perform(body, world=world, json=json)


@sandbox.command(
    "rm",
    short_help="End boxes at once.",
    epilog=examples("outlast sandbox rm pricing-3f2a-h4xk", "outlast sandbox rm --all --yes"),
)
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "everything", is_flag=True, help="All that stand.")
@click.option("--provider", help="Only those of this provider.")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="With --all: those with this label."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@shared
def rm_(
    names: tuple[str, ...],
    everything: bool,
    provider: str | None,
    labels: tuple[str, ...],
    yes: bool,
    world: str | None,
    json: bool,
) -> None:
    """End the boxes NAME at once, with all that runs in them.

    What the log holds of a session's files is not touched: its next attempt makes another box of that. What a box has
    that was not written down yet is lost, and a command that runs in it is cut off.
    """
    if bool(names) == everything:
        raise click.UsageError("Name the boxes, or give --all.")
    if labels and not everything:
        raise click.UsageError("--label goes with --all.")

    async def body(setup: Setup) -> None:
        found = [one async for one in _boxes(setup, provider, _labels(labels))]
        there = [(of, box) for of, box in found if everything or box.name in names]
        missing = [name for name in names if name not in {box.name for _, box in there}]
        if missing:
            raise NotFound(
                detail=f"No box stands under the name {missing[0]!r}. `outlast sandbox ls` lists them."
            )
        if there and not yes:
            _ask([_line(of.name, box) for of, box in there])
        for of, box in there:
            await of.destroy(box.ref)
            setup.say({"provider": of.name, "ended": box.name}, f"ended {box.name}")

    perform(body, world=world, json=json)


async def _boxes(
    setup: Setup, only: str | None, labels: Mapping[str, str]
) -> AsyncIterator[tuple[SandboxProvider, Found]]:
    """What stands, provider by provider.

    One that fails is told of, and raises if it alone was asked; those that do not work on this machine are only named.
    """
    passed: list[str] = []
    for point in _points(only):
        try:
            provider = cast("OpenProvider", point.load())(setup.settings.data)
            found = sorted(await provider.list(labels), key=lambda box: box.name)
        except OutlastError as error:
            if only is not None:
                raise
            if isinstance(error, SandboxUnsupported):
                passed.append(point.name)
                continue
            click.echo(f"outlast: the boxes of {point.name} cannot be listed: {error}", err=True)
            continue
        for box in found:
            yield provider, box
    if passed and not setup.json:
        names = ", ".join(passed)
        click.echo(
            f"outlast: not asked, since they do not work here: {names} (--provider says why)", err=True
        )


def _points(only: str | None) -> Sequence[EntryPoint]:
    points = brought(GROUP)
    if only is None:
        return sorted(points, key=lambda point: point.name)
    if only not in points.names:
        known = ", ".join(sorted(points.names)) or "none"
        raise NotFound(detail=f"There is no provider of sandboxes called {only!r}. Installed: {known}.")
    return [points[only]]


def _labels(given: Sequence[str]) -> Mapping[str, str]:
    labels: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise BadInput(detail=f"{text!r} is no label. Write it as NAME=VALUE.")
        labels[name] = value
    return labels


def _line(provider: str, box: Found) -> str:
    labels = " ".join(f"{name}={value}" for name, value in sorted(box.labels.items()))
    return plain(f"{box.name}   {provider}   {box.state}   {age(box.age_s)}   {labels}".rstrip())


def _ask(lines: Sequence[str]) -> None:
    if not sys.stdin.isatty():
        raise BadInput(detail="There is no terminal to ask on. Give --yes to end boxes without a question.")
    for line in lines:
        click.echo(line, err=True)
    click.confirm("End them at once?", abort=True, err=True)
