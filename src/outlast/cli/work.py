"""`outlast work`: a worker, under its supervisor."""

import os
import signal
import sys
from collections.abc import Mapping

import anyio
import click

from outlast.adapter import Agent
from outlast.cli.agents import all_agents
from outlast.cli.exits import Exit
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup, perform, shared
from outlast.cli.providers import upstream_of
from outlast.engine.deadlines import claim_supervision
from outlast.engine.processes import supervisor_argv
from outlast.gateway import open_gateway
from outlast.ids import new_id
from outlast.worker import Worker, WorkerConfig, open_worker


@click.command()
@click.argument("agents", nargs=-1, metavar="[MODULE:AGENT]...")
@click.option("--session", "only", help="Advance this session and no other.")
@click.option("--until-idle", is_flag=True, help="End when nothing is ready any more.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), help="Sessions at once, in place of the setting."
)
@click.option("--name", default="", help="A name for this worker, unique among those that live.")
@shared
def work(
    agents: tuple[str, ...],
    only: str | None,
    until_idle: bool,
    concurrency: int | None,
    name: str,
    world: str | None,
    json: bool,
) -> None:
    """Claim ready sessions and advance them, until SIGTERM or Ctrl-C.

    Built-in agents (claude-code …) need not be named; your own are, as MODULE:AGENT. Any number of workers may run, on
    any machine that reaches the World. On SIGTERM it claims nothing more, lets turns go on for `drain_s`, then hands
    them over; on a second one it hands over at once.
    """
    supervision = claim_supervision(os.environ)

    async def body(setup: Setup) -> int:
        if supervision is None:
            _under_supervisor(setup)
        config = WorkerConfig(
            data=setup.settings.data,
            machine=machine_id(setup.settings.data),
            lease_s=setup.settings.lease_s,
            concurrency=concurrency or setup.settings.concurrency,
            supervision=supervision,
            only=only,
            name=name or new_id("worker"),
        )
        return await _work(setup, all_agents(agents), config, until_idle=until_idle)

    perform(body, world=world, json=json)


def _under_supervisor(setup: Setup) -> None:
    """Become the supervisor of this very command; does not return."""
    locks = setup.settings.data / "locks"
    locks.mkdir(parents=True, exist_ok=True, mode=0o700)
    again = [sys.executable, "-m", "outlast.cli", *sys.argv[1:]]
    argv = supervisor_argv(again, lock=locks / new_id("worker"), ttl_s=setup.settings.lease_s + 20.0)
    os.execv(argv[0], argv)  # noqa: S606 - the supervisor takes this process's place


async def _work(setup: Setup, agents: Mapping[str, Agent], config: WorkerConfig, *, until_idle: bool) -> int:
    setup.settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    upstream = upstream_of(setup.settings, os.environ)
    async with (
        setup.world() as world,
        open_gateway(upstream=upstream, clock=config.clock) as gateway,
        open_worker(world, agents, gateway, config) as worker,
    ):
        setup.say(
            {"worker": worker.id, "pid": os.getpid(), "world": world.name, "agents": sorted(agents)},
            f"worker {worker.id} on {world.name}, agents: {', '.join(sorted(agents))}",
        )
        sys.stdout.flush()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_drain_on_signal, worker, setup.settings.drain_s)
            await worker.work(until_idle=until_idle)
            tasks.cancel_scope.cancel()
    return Exit.UNAVAILABLE if worker.lost else Exit.OK


async def _drain_on_signal(worker: Worker, drain_s: float) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if worker.draining or number == signal.SIGINT:
                worker.hand_over()
            else:
                click.echo(
                    f"draining {worker.running} sessions for {drain_s:g} s; once more hands over", err=True
                )
                worker.drain()
            with anyio.move_on_after(drain_s):
                async for _ in signals:
                    break
            worker.hand_over()


def worker_argv(*arguments: str) -> list[str]:
    """The command line of a worker, for those who start one as a process of its own."""
    return [sys.executable, "-m", "outlast.cli", "work", *arguments]
