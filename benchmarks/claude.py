"""What the Claude Code measurements share: what the model says, and the program without outlast."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.frame import Bench
from benchmarks.workers import Crew, crew
from outlast.adapters.claude_code.launch import SERVER, SWITCHES
from outlast.adapters.claude_code.versions import installed
from outlast.clock import SystemClock
from outlast.testing.models import RequestRecord, Script, SpawnedModels, Step, ToolUse
from outlast.testing.models.spawned import spawn_models
from outlast.workspaces.local import Local, local

STEPS = 12
WORDS = (
    "I look again, since the last look told nothing that could be used, and then I say what there is to see. "
)
PROMPT = "Look again and again with the look tool. [script:bench]"
ANSWER_S = 60.0


def script() -> Script:
    """A turn of many looks, and an answer for the program without outlast."""
    look = Step(text=WORDS, tools=(ToolUse(name=f"mcp__{SERVER}__look"),))
    return Script(conversations={"bench": (look,) * STEPS, "hello": (Step(text="Hello."),)})


@asynccontextmanager
async def claude_crew(bench: Bench, count: int) -> AsyncGenerator[tuple[SpawnedModels, Crew]]:
    """A scripted model, and `count` workers whose model it is."""
    async with (
        spawn_models(script()) as models,
        crew(
            bench, "benchmarks.cast:claude", count, environ={"OUTLAST_ANTHROPIC_BASE_URL": models.base_url}
        ) as workers,
    ):
        yield models, workers


def workspace(bench: Bench, name: str) -> Local:
    """A directory of its own for a session."""
    path = bench.directory / "work" / name
    path.mkdir(parents=True)
    return local(path)


async def arrival(models: SpawnedModels, after: int, conversation: str, step: int = 0) -> RequestRecord:
    """The first request behind number `after` that asks for this step or a later one."""
    async with asyncio.timeout(ANSWER_S):
        while True:
            for request in await models.requests():
                fits = request.conversation == conversation and request.kind == "model"
                if request.n > after and fits and (request.step or 0) >= step:
                    return request
            await asyncio.sleep(0.01)


async def bare_start(bench: Bench, models: SpawnedModels, number: int) -> float:
    """Seconds from the start of Claude Code, without outlast and in a fresh home, to its first model request."""
    home = bench.directory / f"bare-{number}"
    home.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": models.base_url,
        "ANTHROPIC_API_KEY": "none",
        **SWITCHES,
    }
    seen = len(await models.requests())
    began_s = SystemClock().now()
    null = asyncio.subprocess.DEVNULL
    argv = [str(installed().program), "-p", "[script:hello] Say hello.", "--model", "claude-sonnet-4-5"]
    process = await asyncio.create_subprocess_exec(
        *argv, env=environ, cwd=home, stdin=null, stdout=null, stderr=null
    )
    try:
        request = await arrival(models, seen, "hello")
    finally:
        async with asyncio.timeout(ANSWER_S):
            await process.wait()
    return request.at - began_s


def is_there() -> bool:
    """Claude Code is installed."""
    return Path(installed().program).is_file()
