"""`outlast work`: a worker, under its supervisor."""

import os
import sys
from dataclasses import replace
from typing import NoReturn

import anyio
import click

from outlast.cli.argv import SELF, worker_argv
from outlast.cli.durations import DURATION
from outlast.cli.exits import guarded
from outlast.cli.lazy import loaded
from outlast.cli.options import SESSION, Setup, examples, setup_of, shared
from outlast.cli.shares import limits_of, names_of
from outlast.cli.wishes import WorkerWish
from outlast.engine.deadlines import claim_supervision
from outlast.engine.processes import STARTING_S, supervisor_argv
from outlast.errors import BadInput, WorldUnavailable
from outlast.folders import make_private
from outlast.ids import new_id

__all__ = ["work", "worker_argv"]


@click.command(
    epilog=examples(
        "outlast work",
        "outlast work shop.agents:support --concurrency 4",
        "outlast work shop.agents:support --agents support --limit support=8",
        "outlast work --until 14m --once",
    )
)
@click.argument("agents", nargs=-1, metavar="[MODULE:AGENT]...")
@click.option(
    "--agents",
    "offered",
    multiple=True,
    metavar="NAMES",
    help="Offer these agents only, as a,b, by their names.",
)
@click.option(
    "--tenant", "tenants", multiple=True, metavar="NAMES", help="Serve these tenants in turns, as a,b."
)
@click.option("--all-tenants", is_flag=True, help="Serve every tenant of the World, in turns.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="[AGENT=]N",
    help="No more sessions of that agent, or of a tenant, at once by all workers.",
)
@click.option("--session", "only", type=SESSION, help="Advance this session and no other.")
@click.option(
    "--until-idle", "--once", "until_idle", is_flag=True, help="End when nothing is ready any more."
)
@click.option(
    "--until",
    "until_s",
    type=DURATION,
    metavar="TIME",
    help="Be through in this time (840s, 14m): what does not fit is handed over.",
)
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), help="Sessions at once, in place of the setting."
)
@click.option("--name", default="", help="What the id of this worker begins with.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Drain when standard input ends.")
@shared
def work(
    agents: tuple[str, ...],
    offered: tuple[str, ...],
    tenants: tuple[str, ...],
    all_tenants: bool,
    limits: tuple[str, ...],
    only: str | None,
    until_idle: bool,
    until_s: float | None,
    concurrency: int | None,
    name: str,
    until_eof: bool,
    world: str | None,
    json: bool,
) -> None:
    """Claim ready sessions and advance them, until SIGTERM or Ctrl-C.

    Built-in agents (claude-code …) need not be named; your own are, as MODULE:AGENT. Any number of workers may run, on
    any machine that reaches the World; one that is killed is followed by another. With `--json` the first line tells
    the worker's id and process.

    On SIGTERM it claims nothing more, lets turns go on, and is through within `drain_s` seconds: what does not end in
    time is handed over. On a second one, and on Ctrl-C, it hands over at once. Handing over costs no finished call.

    Tenants take turns, and so do the agents of each. A `--limit` holds among all workers that are given it.
    """

    def body() -> int:
        wish = WorkerWish(
            agents,
            only,
            name,
            concurrency,
            until_idle,
            until_eof,
            until_s,
            offered=frozenset(names_of(offered)),
            tenants=_tenants(tenants, whole=all_tenants, only=only),
            all_tenants=all_tenants,
            limits=limits_of(limits),
        )
        supervision = claim_supervision(os.environ)
        setup = setup_of(world=world, json=json)
        if supervision is None:
            become_supervisor(setup)
        serve = loaded("outlast.cli.worker:serve")
        return anyio.run(serve, setup, replace(wish, supervision=supervision))

    guarded(body, json=json)


def _tenants(texts: tuple[str, ...], *, whole: bool, only: str | None) -> tuple[str, ...]:
    """Whom it serves; empty: the tenant of the settings."""
    names = names_of(texts)
    if whole and names:
        raise BadInput(detail="--all-tenants are all of them: leave out --tenant.")
    if only is not None and (whole or len(names) > 1):
        raise BadInput(detail="--session is one of one tenant. Say which with a single --tenant NAME.")
    return names


def become_supervisor(setup: Setup) -> NoReturn:
    """Start over as the child of a supervisor, which takes this process's place."""
    locks = setup.settings.data / "locks"
    try:
        make_private(locks)
    except OSError as error:
        raise WorldUnavailable(
            world=f"The data directory {setup.settings.data}", reason=str(error)
        ) from error
    argv = supervisor_argv(
        [*SELF, *sys.argv[1:]], lock=locks / new_id("worker"), ttl_s=setup.settings.lease_s + STARTING_S
    )
    os.execv(argv[0], argv)  # noqa: S606 - no shell is the point
