"""Performs the story: three runs at once, on one forge and one scripted model, and what came of them."""

import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import click
import msgspec
from rich.console import Console

from outlast.cli.demo.pricing import bare
from outlast.cli.demo.pricing.bench import Bench, make_bench
from outlast.cli.demo.pricing.bill import NAMES, OUTLAST, Bill, Run, broken_promises, count, print_bill
from outlast.cli.demo.pricing.columns import Columns
from outlast.cli.demo.pricing.door import Served, open_door
from outlast.cli.demo.pricing.durable import NAME, Durable
from outlast.cli.demo.pricing.forge import Forge, open_forge
from outlast.cli.demo.pricing.panes import SESSIONS, Panes, open_panes
from outlast.cli.demo.pricing.shop import script
from outlast.cli.options import Setup
from outlast.cli.text import short
from outlast.errors import OutlastError
from outlast.groups import task_group
from outlast.opening import open_world
from outlast.settings import read_settings
from outlast.testing.models import ScriptedModels, SpawnedModels
from outlast.world import World

Say = Callable[[str], None]
_BARE: Final = {"restart": bare.start_over, "continue": bare.go_on}


@dataclass(frozen=True, slots=True)
class Ground:
    """What the three stand on."""

    setup: Setup
    models: SpawnedModels
    benches: Mapping[str, Bench]
    world: World
    served: Served
    environ: Mapping[str, str]
    """Of what runs with outlast."""
    panes: Panes | None
    """Where the others are shown in the page; None: nowhere."""


async def perform_pricing(setup: Setup, directory: Path, *, page: bool) -> bool:
    """Perform, tell the story meanwhile and what it has cost behind it. Returns whether every promise was kept.

    Args:
        page: also show it in the page, which stays until Ctrl-C.

    Raises:
        HarnessError: Claude Code or the server does not start.
    """
    console = Console(stderr=setup.json)
    async with _opened(setup, directory, page=page) as ground:
        if page:
            _tell_page(setup, ground.served, console)
        bill = await _perform(ground, console)
        if setup.json:
            click.echo(msgspec.json.encode(bill).decode())
        else:
            print_bill(bill, console)
        if page:
            console.print("The page stays until Ctrl-C.")
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                await anext(signals)
    return bill.ok


def _tell_page(setup: Setup, served: Served, console: Console) -> None:
    place = f"#/panes/{','.join([*SESSIONS.values(), NAME])}"
    link = f"{served.url}/{place}&token={served.token}"
    if setup.json:
        click.echo(msgspec.json.encode({"url": served.url, "token": served.token, "link": link}).decode())
    else:
        console.print(f"In the page: {link}", soft_wrap=True, markup=False, highlight=False)


@asynccontextmanager
async def _opened(setup: Setup, directory: Path, *, page: bool) -> AsyncGenerator[Ground]:
    async with AsyncExitStack() as stack:
        forge: Forge = await stack.enter_async_context(open_forge(setup.clock))
        log = directory / "model.jsonl"
        models = await stack.enter_async_context(ScriptedModels.spawn(script(), log=log))
        model = {"ANTHROPIC_BASE_URL": models.base_url, "ANTHROPIC_API_KEY": "scripted"}
        benches = {name: make_bench(name, directory / name, forge, model) for name in NAMES}
        url = f"sqlite:{directory / 'world.db'}"
        environ = {
            **benches[OUTLAST].environ,
            "OUTLAST_WORLD": url,
            "OUTLAST_DATA_DIR": str(directory / "data"),
            "OUTLAST_HARNESS_DIR": str(read_settings().harnesses),
        }
        world = await stack.enter_async_context(open_world(url))
        served = await stack.enter_async_context(open_door(directory, environ))
        panes = await stack.enter_async_context(open_panes(world, directory, environ)) if page else None
        yield Ground(setup, models, benches, world, served, environ, panes)


async def _perform(ground: Ground, console: Console) -> Bill:
    runs = {name: Run(name) for name in NAMES}
    with Columns(console) as columns:
        ours = ground.benches[OUTLAST]
        durable = Durable(
            ours,
            runs[OUTLAST],
            columns.teller(OUTLAST),
            ground.setup.clock,
            ground.world,
            ground.served,
            ground.environ,
        )
        async with task_group() as tasks:
            tasks.start_soon(_timed, runs[OUTLAST], durable.play)
            for name in _BARE:
                tasks.start_soon(_alone, ground, runs[name], columns.teller(name))
    requests = await ground.models.requests()
    for name, run in runs.items():
        count(run, requests)
        opened = ground.benches[name].repository.opened
        run.pull_requests = len(opened)
        run.checks = opened[-1].checks if opened else ""
    assert durable.watcher is not None
    watched = durable.watcher.watched
    broken = broken_promises(runs[OUTLAST], watched)
    return Bill(not broken, list(runs.values()), watched, durable.functions, durable.idle_s, broken)


async def _alone(ground: Ground, run: Run, say: Say) -> None:
    """A run without outlast: what becomes of it is told, and breaks no promise of ours."""
    panes, bench = ground.panes, ground.benches[run.name]
    tell = say if panes is None else panes.teller(run.name, say)
    try:
        await _timed(run, lambda: _BARE[run.name](bench, run, tell))
    except OutlastError as error:
        run.result = str(error)
        tell(f"✖ {short(run.result, 200)}")
    finally:
        if panes is not None:
            panes.end(run.name)


async def _timed(run: Run, play: Callable[[], Awaitable[None]]) -> None:
    begun = anyio.current_time()
    try:
        await play()
    finally:
        run.seconds = round(anyio.current_time() - begun, 1)
