"""Performs a plot: the scripted model, the World, two workers, one turn, and what came of it."""

import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from rich.console import Console

from outlast.cli.demo.plot import Plot
from outlast.cli.demo.props import LEDGER, LEDGER_VARIABLE
from outlast.cli.demo.receipt import (
    Receipt,
    broken_promises,
    broken_waits,
    cost_bytes,
    model_lines,
    tool_lines,
)
from outlast.cli.demo.stage import Stage, staged
from outlast.cli.demo.story import Director, saved_by, teller
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup
from outlast.cli.printer import Printer
from outlast.engine.places import fresh_home
from outlast.errors import BadInput, HarnessError
from outlast.ids import new_id
from outlast.opening import open_world
from outlast.session import Session
from outlast.settings import read_settings
from outlast.testing.models import RequestRecord, ScriptedModels, SpawnedModels
from outlast.workspaces.local import local
from outlast.world import Capability, Commit, World

LIMIT_S = 180.0
OWN_WORLD = "sqlite"
"""What `--world` says where the demo brings a World along, a file of its own."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where and how a plot is performed."""

    plot: Plot
    directory: Path
    """Of everything that the demo writes."""
    world: str
    """`sqlite` for a file of its own, else the URL of a World that is there."""
    real: bool
    """The model is the real one."""
    keep: bool
    """What was played in a World that is not its own stays there."""

    @property
    def own(self) -> bool:
        return self.world == OWN_WORLD

    @property
    def url(self) -> str:
        return f"sqlite:{self.world_file}" if self.own else self.world

    @property
    def world_file(self) -> Path:
        return self.directory / "world.db"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def check(self) -> None:
        """Raises BadInput: the World can be no URL."""
        if not self.own and ":" not in self.world:
            raise BadInput(
                detail=f"The demo brings no World {self.world!r} along. Name one that is there by its URL: "
                f"--world {self.world}:…, or leave --world out for a file of its own."
            )


async def play(setup: Setup, scene: Scene) -> Receipt:
    """Perform, and tell the story meanwhile.

    Raises:
        BadInput: the World cannot be shared by workers.
    """
    say = teller(quiet=setup.json)
    say(f"{scene.plot.title} The model is {'real.' if scene.real else 'scripted: no key is needed.'}")
    name = "demo" if scene.own else new_id("demo")  # in a World of others its id is nobody else's
    async with open_world(scene.url) as world, _model(scene) as (environ, models):
        if Capability.MULTI_PROCESS not in world.capabilities:
            raise BadInput(detail=f"{world.name} is known to one process only; the workers are others.")
        stage = Stage(scene.directory, scene.plot.cast, name, {**os.environ, **environ, **_environ(scene)})
        session = await _open(world, name, scene)
        try:
            async with staged(stage):
                turn = await session.send(scene.plot.prompt, id="demo-1")
                director, parked = Director(scene.plot, stage, session, say), ""
                async with anyio.create_task_group() as director.tasks:
                    parked = await _watch(session, director, quiet=setup.json)
                if parked:
                    raise HarnessError(harness=scene.plot.agent, reason=f"its turn is parked: {parked}")
                outcome = await turn.result()
            commits = await _all_commits(session)
            requests: Sequence[RequestRecord] = () if models is None else await models.requests()
        finally:
            if not (scene.own or scene.keep):
                with anyio.CancelScope(shield=True):
                    await world.erase(name)
    return _receipt(str(outcome), commits, requests, director, scene)


async def _open(world: World, name: str, scene: Scene) -> Session:
    plot = scene.plot
    if not plot.files:
        return await Session.open(world, name, agent=plot.agent, settings=plot.settings)
    shop = scene.directory / "shop"
    shop.mkdir(exist_ok=True)
    for file, text in plot.files.items():
        (shop / file).write_text(text)
    return await Session.open(
        world,
        name,
        agent=plot.agent,
        workspace=local(shop, host=machine_id(scene.data)),
        home=fresh_home(scene.data, name),
        settings=plot.settings,
    )


def _environ(scene: Scene) -> Mapping[str, str]:
    """What the workers are told; for the scripted model also a home of their own, so that the demo leaves nothing."""
    home = scene.directory / "user"
    home.mkdir(exist_ok=True)
    return {
        **({} if scene.real else {"HOME": str(home)}),
        "OUTLAST_WORLD": scene.url,
        "OUTLAST_DATA_DIR": str(scene.data),
        "OUTLAST_HARNESS_DIR": str(read_settings().harnesses),  # not below the demo's own data directory
        LEDGER_VARIABLE: str(scene.directory / LEDGER),
        "OUTLAST_LOG_LEVEL": "info",
        "PYTHONUNBUFFERED": "1",
    }


@asynccontextmanager
async def _model(scene: Scene) -> AsyncGenerator[tuple[Mapping[str, str], SpawnedModels | None]]:
    if scene.real:
        yield {}, None
        return
    async with ScriptedModels.spawn(scene.plot.script, log=scene.directory / "model.jsonl") as models:
        urls = {"ANTHROPIC_BASE_URL": models.base_url, "OPENAI_BASE_URL": f"{models.base_url}/v1"}
        yield {**urls, **dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), "scripted")}, models


async def _watch(session: Session, director: Director, *, quiet: bool) -> str:
    """Tell the turn to its end. Returns why it is parked, if that is how it ends."""
    console = Console(highlight=False, soft_wrap=True, file=sys.stderr if quiet else sys.stdout)
    with anyio.fail_after(LIMIT_S), Printer(console, session=session.id) as printer:
        async for event in session.follow():
            printer.apply(event)
            director.watch(event)
            if event.kind == "turn.settled":
                return ""
            if event.kind == "turn.parked":
                return event.status
    return "nobody knows why"


async def _all_commits(session: Session) -> list[Commit]:
    found: list[Commit] = []
    while page := await session.world.commits(session.id, len(found), 1000):
        found += page
    return found


def _receipt(
    result: str,
    commits: Sequence[Commit],
    requests: Sequence[RequestRecord],
    director: Director,
    scene: Scene,
) -> Receipt:
    name = director.session.id
    models = model_lines(commits, name, requests)
    tools = tool_lines(commits, name, director.stage.ledger)
    broken = broken_promises(None if scene.real else models, tools, director.kills)
    broken += broken_waits(director.waits, scene.plot.signal)
    return Receipt(
        ok=not broken,
        result=result,
        model_calls=models,
        tools=tools,
        kills=director.kills,
        waits=director.waits,
        saved=saved_by(director.kills),
        cost_bytes=cost_bytes(commits, scene.world_file if scene.own else None, name),
        broken=broken,
    )
