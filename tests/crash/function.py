"""A function as a serverless platform runs it: it advances sessions by request, and is told nothing of its end.

`python -m tests.crash.function PORT`, with the World, the model server and the ledger in the environment.
"""

import asyncio
import os
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.asgi import advance_route
from outlast.clock import SystemClock
from outlast.model import user
from outlast.models.anthropic import Anthropic
from outlast.tool import ToolIO, tool

NAME = "stepper"
TOKEN = "of the tests"
STEP_S = 0.2


@tool(timeout_s=1.0)
async def step(io: ToolIO, number: int) -> int:
    """A piece of work that must not be done twice."""
    _note(f"begin {number}")
    await asyncio.sleep(STEP_S)
    _note(f"done {number}")
    return number


def _note(said: str) -> None:
    with Path(os.environ["LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{SystemClock().now()} {said}\n")


async def run(io: IO, prompt: str) -> object:
    """As many steps as the prompt says, each thought about first."""
    model = Anthropic("scripted", api_key="none", base_url=os.environ["MODELS"])
    done: list[object] = []
    for number in range(int(prompt)):
        answer = await io.model(model, [user(f"[script:step{number}] What now?")])
        done.append([answer.message.text, await io.tool(step, number=number)])
    return done


agent = Agent(NAME, Loop(run), tools=[step])


def main() -> None:
    """Serve until killed."""
    limit_s = float(os.environ["LIMIT_S"])
    app = Starlette(
        routes=[
            advance_route([agent], token=TOKEN, limit_s=limit_s, data=Path(os.environ["OUTLAST_DATA_DIR"]))
        ]
    )
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")


if __name__ == "__main__":
    main()
