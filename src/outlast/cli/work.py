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
from outlast.cli.wishes import WorkerWish
from outlast.engine.deadlines import claim_supervision
from outlast.engine.processes import supervisor_argv
from outlast.errors import WorldUnavailable
from outlast.ids import new_id

__all__ = ["work", "worker_argv"]


@click.command(
    epilog=examples(
        "outlast work", "outlast work shop.agents:support --concurrency 4", "outlast work --until 14m --once"
    )
)
@click.argument("agents", nargs=-1, metavar="[MODULE:AGENT]...")
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
    """
    wish = WorkerWish(agents, only, name, concurrency, until_idle, until_eof, until_s)

    def body() -> int:
        supervision = claim_supervision(os.environ)
        setup = setup_of(world=world, json=json)
        if supervision is None:
            _become_supervisor(setup)
        serve = loaded("outlast.cli.worker:serve")
        return anyio.run(serve, setup, replace(wish, supervision=supervision))

    guarded(body, json=json)


def _become_supervisor(setup: Setup) -> NoReturn:
    """Start over as the child of a supervisor, which takes this process's place."""
    locks = setup.settings.data / "locks"
    try:
        locks.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise WorldUnavailable(
            world=f"The data directory {setup.settings.data}", reason=str(error)
        ) from error
    argv = supervisor_argv(
        [*SELF, *sys.argv[1:]], lock=locks / new_id("worker"), ttl_s=setup.settings.lease_s + 20.0
    )
    os.execv(argv[0], argv)  # noqa: S606 - no shell is the point
