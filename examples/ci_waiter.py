"""An agent that waits for CI, for days if it must be, and costs nothing meanwhile: no worker, no process, no model.

    export ANTHROPIC_API_KEY=…
    outlast run examples.ci_waiter:waiter "https://ci.example/builds/81"

A webhook of CI tells the session how the build ended, whenever that is:

    await session.signal("ci", {"state": "failed", "log": "test_pay: AssertionError"}, id=delivery_id)
"""

from collections.abc import Sequence
from typing import Any

from outlast import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.errors import NothingCame
from outlast.model import Message, Model, user
from outlast.models.anthropic import Anthropic

PATIENCE_S = 7 * 86_400.0
REMIND_S = 86_400.0


def waiting_for_ci(model: Model) -> LoopFunction:
    """The loop: wait for the build, and have the model say what went wrong."""

    async def wait_for_ci(io: IO, build: str) -> dict[str, Any]:
        began = await io.now()
        while True:
            try:
                ended = await io.wait_for("ci", timeout_s=REMIND_S)
                break
            except NothingCame:
                if await io.now() - began >= PATIENCE_S:
                    return {"build": build, "state": "given up"}
        if ended["state"] == "passed":
            return {"build": build, "state": "passed"}
        ask: Sequence[Message] = [user(f"The build {build} failed. What went wrong?\n\n{ended['log']}")]
        answer = await io.model(model, ask)
        return {"build": build, "state": ended["state"], "why": answer.message.text}

    return wait_for_ci


def waiter_of(model: Model) -> Agent:
    """The agent that a model speaks for."""
    return Agent("ci-waiter", Loop(waiting_for_ci(model)))


waiter = waiter_of(Anthropic("claude-sonnet-5-5"))
