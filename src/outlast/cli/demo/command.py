"""`outlast demo`."""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import click
import msgspec
from rich.console import Console

from outlast.cli.demo.plot import ORDERS, PROMPT, script
from outlast.cli.demo.props import LEDGER_VARIABLE
from outlast.cli.demo.receipt import (
    Receipt,
    broken_promises,
    cost_bytes,
    model_lines,
    receipt_text,
    tool_lines,
)
from outlast.cli.demo.stage import Stage, staged
from outlast.cli.demo.story import Director, saved_by, teller
from outlast.cli.exits import Exit
from outlast.cli.extras import fetch
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup, perform
from outlast.cli.printer import Printer
from outlast.engine.places import fresh_home
from outlast.errors import BadInput
from outlast.opening import open_world
from outlast.session import Session
from outlast.testing.models import RequestRecord, ScriptedModels, SpawnedModels
from outlast.workspaces.local import local
from outlast.world import Commit, World

SESSION = "demo"
LIMIT_S = 180.0


@click.command()
@click.option(
    "--real", is_flag=True, help="Use the real provider of your environment instead of the scripted model."
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the demo's files in this directory.",
)
@click.option("--harness", default="claude-code", hidden=True)
@click.option("--world", "kind", default="sqlite", hidden=True)
@click.option("--json", is_flag=True, help="End with one JSON object; the story goes to standard error.")
def demo(real: bool, keep: Path | None, harness: str, kind: str, json: bool) -> None:
    """Watch a real Claude Code turn outlive three kill -9.

    Two workers, a turn of five model calls and four tool calls, and SIGKILL for whoever advances it: while the model
    streams, while a tool runs that must not run twice, and between two calls. Needs no key: the model is scripted.
    """

    async def body(setup: Setup) -> int:
        if (harness, kind) != ("claude-code", "sqlite"):
            raise BadInput(detail=f"There is no demo for harness {harness!r} on World {kind!r} yet.")
        fetch("claude-code", "claude_agent_sdk", "Claude Code")
        with tempfile.TemporaryDirectory(prefix="outlast-demo-") as temporary:
            directory = (keep or Path(temporary)).absolute()
            directory.mkdir(parents=True, exist_ok=True)
            receipt = await _play(setup, directory, real=real)
        if json:
            click.echo(msgspec.json.encode(receipt).decode())
        else:
            click.echo(receipt_text(receipt))
        return Exit.OK if receipt.ok else Exit.FAILED

    perform(body, world=None, json=json)


async def _play(setup: Setup, directory: Path, *, real: bool) -> Receipt:
    shop, ledger = directory / "shop", directory / "ledger.txt"
    shop.mkdir(exist_ok=True)
    (shop / "orders.txt").write_text(ORDERS)
    url = f"sqlite:{directory / 'world.db'}"
    say = teller(quiet=setup.json)
    say(
        "A real Claude Code turn, two workers, three kills. The model is "
        + ("real." if real else "scripted: no key is needed.")
    )
    async with _model(directory, real=real) as (environ, models):
        stage = Stage(directory, url, {**os.environ, **environ, **_own(directory, ledger, real=real)})
        async with staged(stage), open_world(url) as world:
            session = await Session.open(
                world,
                SESSION,
                agent="demo-shop",
                workspace=local(shop, host=machine_id(directory / "data")),
                home=fresh_home(directory / "data", SESSION),
                settings={"model": "claude-sonnet-4-5"},
            )
            turn = await session.send(PROMPT, id="demo-1")
            director = Director(stage, ledger, say)
            async with anyio.create_task_group() as director.tasks:
                await _watch(session, director, quiet=setup.json)
            outcome = await turn.result()
            commits = await _all_commits(world)
            requests: Sequence[RequestRecord] = () if models is None else await models.requests()
    return _receipt(str(outcome), commits, requests, director, directory, real=real)


def _own(directory: Path, ledger: Path, *, real: bool) -> Mapping[str, str]:
    """What the workers are told; for the scripted model also a home of their own, so that the demo leaves nothing."""
    home = directory / "user"
    home.mkdir(exist_ok=True)
    return {
        **({} if real else {"HOME": str(home)}),
        "OUTLAST_DATA_DIR": str(directory / "data"),
        LEDGER_VARIABLE: str(ledger),
        "OUTLAST_LOG_LEVEL": "info",
        "PYTHONUNBUFFERED": "1",
    }


@asynccontextmanager
async def _model(
    directory: Path, *, real: bool
) -> AsyncGenerator[tuple[Mapping[str, str], SpawnedModels | None]]:
    if real:
        yield {}, None
        return
    async with ScriptedModels.spawn(script(), log=directory / "model.jsonl") as models:
        yield {"ANTHROPIC_BASE_URL": models.base_url, "ANTHROPIC_API_KEY": "scripted"}, models


async def _watch(session: Session, director: Director, *, quiet: bool) -> None:
    printer = Printer(
        console=Console(highlight=False, soft_wrap=True, file=sys.stderr if quiet else sys.stdout)
    )
    with anyio.fail_after(LIMIT_S), printer:
        async for event in session.follow():
            printer.apply(event)
            director.watch(event)
            if event.kind == "turn.settled":
                return


async def _all_commits(world: World) -> list[Commit]:
    found: list[Commit] = []
    while page := await world.commits(SESSION, len(found), 1000):
        found += page
    return found


def _receipt(
    result: str,
    commits: Sequence[Commit],
    requests: Sequence[RequestRecord],
    director: Director,
    directory: Path,
    *,
    real: bool,
) -> Receipt:
    models = model_lines(commits, SESSION, requests)
    tools = tool_lines(commits, SESSION, director.ledger)
    broken = broken_promises(None if real else models, tools, director.kills)
    return Receipt(
        ok=not broken,
        result=result,
        model_calls=models,
        tools=tools,
        kills=director.kills,
        saved=saved_by(director.kills),
        cost_bytes=cost_bytes(commits, directory / "world.db", SESSION),
        broken=broken,
    )
