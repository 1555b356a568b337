"""Performs the story: three runs at once, on one forge and one scripted model, and what came of them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
from rich.console import Console

from outlast.cli.demo.pricing import bare
from outlast.cli.demo.pricing.bench import Bench, make_bench
from outlast.cli.demo.pricing.bill import NAMES, OUTLAST, Bill, Run, broken_promises, count
from outlast.cli.demo.pricing.columns import Columns
from outlast.cli.demo.pricing.durable import Durable
from outlast.cli.demo.pricing.forge import open_forge
from outlast.cli.demo.pricing.shop import script
from outlast.cli.options import Setup
from outlast.cli.text import short
from outlast.errors import OutlastError
from outlast.groups import task_group
from outlast.testing.models import ScriptedModels

_BARE: Final = {"restart": bare.start_over, "continue": bare.go_on}


async def perform_pricing(setup: Setup, directory: Path) -> Bill:
    """Perform, and tell the story meanwhile.

    Raises:
        HarnessError: Claude Code or the server does not start.
    """
    console = Console(stderr=setup.json, soft_wrap=False)
    runs = {name: Run(name) for name in NAMES}
    async with (
        open_forge(setup.clock) as forge,
        ScriptedModels.spawn(script(), log=directory / "model.jsonl") as models,
    ):
        model = {"ANTHROPIC_BASE_URL": models.base_url, "ANTHROPIC_API_KEY": "scripted"}
        benches = {name: make_bench(name, directory / name, forge, model) for name in NAMES}
        with Columns(console) as columns:
            durable = Durable(benches[OUTLAST], runs[OUTLAST], columns.teller(OUTLAST), setup.clock)
            async with task_group() as tasks:
                tasks.start_soon(_timed, runs[OUTLAST], durable.play)
                for name, play in _BARE.items():
                    tasks.start_soon(_alone, play, benches[name], runs[name], columns.teller(name))
        requests = await models.requests()
    for name, run in runs.items():
        count(run, requests)
        opened = benches[name].repository.opened
        run.pull_requests = len(opened)
        run.checks = opened[-1].checks if opened else ""
    assert durable.watcher is not None
    watched = durable.watcher.watched
    broken = broken_promises(runs[OUTLAST], watched)
    return Bill(not broken, list(runs.values()), watched, durable.functions, durable.idle_s, broken)


async def _alone(
    play: Callable[[Bench, Run, Callable[[str], None]], Awaitable[None]],
    bench: Bench,
    run: Run,
    say: Callable[[str], None],
) -> None:
    """A run without outlast: what becomes of it is told, and breaks no promise of ours."""
    try:
        await _timed(run, lambda: play(bench, run, say))
    except OutlastError as error:
        run.result = str(error)
        say(f"✖ {short(run.result, 200)}")


async def _timed(run: Run, play: Callable[[], Awaitable[None]]) -> None:
    begun = anyio.current_time()
    try:
        await play()
    finally:
        run.seconds = round(anyio.current_time() - begun, 1)
