"""pydantic-ai with its DBOS integration: an agent whose model asks for a tool again and again.

Promised per step, which is a model call or a call of the tool (which must itself be a DBOS step): what DBOS promises.
Two steps lie between two calls of the tool, an answer and a result of 4 KB, hence half of that time is told; the
library's own work around a call, which a bare DBOS step does not have, is in it.
"""

import asyncio
import os
import time

from dbos import DBOS
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits
from telling import LONG, SESSIONS, STEPS, Pace, repeats, text, url

pace = Pace()
EACH = 2
DBOS(
    config={
        "name": "bench",
        "system_database_url": url().replace("postgres://", "postgresql+psycopg://"),
        "log_level": "ERROR",
        "application_version": "1",
    }
)


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG001 - a model is given it
    """Ask for the tool until the prompt is fulfilled."""
    asked = sum(isinstance(message, ModelResponse) for message in messages)
    wanted = int(str(getattr(messages[0].parts[-1], "content", "0")))
    if asked < wanted:
        return ModelResponse(parts=[ToolCallPart("work", {"number": asked})])
    return ModelResponse(parts=[TextPart("done")])


agent = Agent(FunctionModel(answer), name="bench", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
async def work(number: int) -> str:
    """Work."""
    pace.step()
    return text(number)


@DBOS.workflow()
async def turn(steps: int) -> str:
    limits = UsageLimits(request_limit=None)
    return (await agent.run(str(steps // EACH), usage_limits=limits)).output


async def main() -> None:
    for _ in range(repeats() + 1):
        await turn(LONG)
        pace.sequence(EACH)
        began_s = time.perf_counter()
        handles = [await DBOS.start_workflow_async(turn, STEPS) for _ in range(SESSIONS)]
        await asyncio.gather(*[handle.get_result() for handle in handles])
        pace.many(began_s)


DBOS.launch()
asyncio.run(main())
pace.tell("pydantic-ai-slim")
os._exit(0)  # its threads go on otherwise
