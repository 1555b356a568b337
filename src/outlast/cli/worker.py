"""The worker behind `outlast work`, in the process that its supervisor started."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import anyio
import click

from outlast.adapter import Agent
from outlast.cli.agents import all_agents
from outlast.cli.exits import Exit
from outlast.cli.late_gateway import open_late_gateway
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup
from outlast.cli.wishes import WorkerWish
from outlast.errors import BadInput
from outlast.ids import new_id
from outlast.notify import notifier_of
from outlast.telemetry.wishes import open_collector
from outlast.worker import Worker, WorkerConfig, open_worker

HINTS_S: Final = 20.0
"""How long a worker that ends sends hints; what they leave out a sweep finds."""


async def serve(setup: Setup, wish: WorkerWish) -> int:
    """Work until told to end. Returns the exit code."""
    agents = _offered(all_agents(wish.agents), wish)
    data = setup.settings.data
    config = WorkerConfig(
        data=data,
        machine=machine_id(data),
        lease_s=setup.settings.lease_s,
        silence_s=setup.settings.silence_s,
        concurrency=wish.concurrency or setup.settings.concurrency,
        supervision=wish.supervision,
        clock=setup.clock,
        notifier=notifier_of(setup.settings),
        only=wish.only,
        tenants=wish.tenants,
        all_tenants=wish.all_tenants,
        limits=wish.limits,
        name=new_id(wish.name or "worker"),  # a name that was used before would hold what its dead held
    )
    # From here on a signal ends the worker in good order, also one that comes before it is ready.
    with anyio.open_signal_receiver(*_signals()) as signals:
        return await _work(setup, agents, config, wish, signals)


def _offered(agents: Mapping[str, Agent], wish: WorkerWish) -> Mapping[str, Agent]:
    """Those of `agents` that this worker is to offer.

    Raises:
        BadInput: one that is named is not there.
    """
    missing = (wish.offered | wish.limits.agents.keys()) - agents.keys()
    if missing:
        there = ", ".join(sorted(agents)) or "none"
        detail = f"This worker has no agent {', '.join(sorted(missing))}. There are: {there}. Your own: MODULE:AGENT."
        raise BadInput(detail=detail)
    return {name: agent for name, agent in agents.items() if not wish.offered or name in wish.offered}


async def _work(
    setup: Setup,
    agents: Mapping[str, Agent],
    config: WorkerConfig,
    wish: WorkerWish,
    signals: AsyncIterator[signal.Signals],
) -> int:
    async with (
        setup.world() as world,
        open_late_gateway(setup.settings, config.clock) as gateway,
        open_collector(os.environ, config.clock, config.name) as collector,
        open_worker(world, agents, gateway, replace(config, collector=collector)) as worker,
    ):
        _hello(setup, worker, world.name, agents)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, worker, signals, setup.settings.drain_s)
            if wish.until_eof:
                tasks.start_soon(_drain_at_eof, worker)
            if wish.until_s is not None:
                worker.end_in(wish.until_s)
            await worker.work(until_idle=wish.until_idle)
            tasks.cancel_scope.cancel()
        if worker.draining:  # it may have left something that is ready
            await _say_so(setup, worker.tenants)
    return Exit.UNAVAILABLE if worker.lost else Exit.OK


async def _say_so(setup: Setup, tenants: Sequence[str]) -> None:
    """Send a hint for each tenant, as long as that takes no time which a process that ends has not."""
    with anyio.move_on_after(HINTS_S):
        for tenant in tenants:
            await setup.wake(tenant, "")


def _hello(setup: Setup, worker: Worker, world: str, agents: Mapping[str, Agent]) -> None:
    names = sorted(agents)
    value = {"worker": worker.id, "pid": os.getpid(), "world": world, "agents": names}
    try:
        setup.say(value, f"worker {worker.id} on {world}, agents: {', '.join(names)}")
    except BrokenPipeError:
        return  # whoever started it does not care; it works all the same


def _signals() -> list[signal.Signals]:
    wanted = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
    # Under nohup a lost terminal is no reason to end.
    return [
        number
        for number in wanted
        if signal.getsignal(number) is not signal.SIG_IGN or number != signal.SIGHUP
    ]


async def _listen(worker: Worker, signals: AsyncIterator[signal.Signals], drain_s: float) -> None:
    first = await anext(signals)
    if first == signal.SIGTERM:
        worker.drain()
        worker.end_in(drain_s)
        if worker.running:
            said = f"outlast: draining, {worker.running} running, for {drain_s:g} s; once more hands over"
            click.echo(said, err=True)
        with anyio.move_on_after(drain_s):
            await anext(signals)
    worker.hand_over()


async def _drain_at_eof(worker: Worker) -> None:
    # Nobody writes to it, so readable means ended.
    await anyio.wait_readable(sys.stdin)
    worker.drain()
