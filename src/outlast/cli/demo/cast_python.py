"""Who plays when a loop of one's own does: some forty lines that ask a model, run its tools, and wait.

The loop knows nothing of crashes: what it has done it finds done, whichever worker runs it.
"""

from typing import Final

import anyio

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.cli.demo.props import PARCEL, SPARED, stands
from outlast.cli.demo.shop import PULSE_S, charge_card, find_charges, find_order
from outlast.model import (
    Message,
    Request,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    tool_result,
    unreadable_result,
    user,
)
from outlast.models.anthropic import Anthropic
from outlast.tool import result_text

CLAUDE: Final = Anthropic("claude-sonnet-4-5")
TOOLS: Final = (find_order, charge_card, find_charges)
WAIT: Final = ToolSpec("wait_for_parcel", "Wait until the parcel is handed over.", {"type": "object"})
SPECS: Final = (*(ToolSpec(tool.name, tool.description, dict(tool.schema)) for tool in TOOLS), WAIT)
OWN_WORK_S: Final = 5.0


async def carry_out(io: IO, prompt: str) -> str:
    """Ask the model, do what it wants, and tell it, until it wants nothing more."""
    messages: list[Message] = [user(prompt)]
    while True:
        answer = await io.model(CLAUDE, Request(model=CLAUDE.name, messages=tuple(messages), tools=SPECS))
        messages.append(answer.message)
        if answer.stop != "tools":
            return answer.message.text
        results = [await _do(io, call) for call in answer.message.tool_calls]
        messages.append(ToolMessage(tuple(results)))


async def _do(io: IO, call: ToolCallPart) -> ToolResultPart:
    if call.unreadable:
        return unreadable_result(call)
    if call.name == WAIT.name:
        return tool_result(call.id, result_text(await io.wait_for(PARCEL)))
    ended = await io.result(call.name, call.arguments)
    if call.name == find_charges.name:
        await _work_of_its_own()
    return tool_result(call.id, result_text(ended.value), is_error=ended.status != "ok")


async def _work_of_its_own() -> None:
    """What a loop does between two calls, of which the log knows nothing. It lasts until the last kill, if it comes."""
    with anyio.move_on_after(OWN_WORK_S):
        while not stands(SPARED):  # noqa: ASYNC110 - another process puts it there
            await anyio.sleep(PULSE_S / 4)


agent = Agent("demo-loop", Loop(carry_out), tools=TOOLS)
