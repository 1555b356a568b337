"""The OpenAI Agents SDK under the adapter contract: agents that know nothing of outlast, and tools of their own."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agents import Agent as TheirAgent
from agents import OpenAIChatCompletionsModel, function_tool
from agents.tool import Tool as TheirTool
from openai import AsyncOpenAI

from outlast.adapter import Agent
from outlast.adapters.foreign import this_call
from outlast.adapters.openai_agents import OpenAIAgents, run_agent
from outlast.testing.adapter_contract import Subject
from outlast.testing.adapter_contract.stage import prompt
from outlast.testing.models import ToolUse
from outlast.tool import Tool
from tests.harnesses.loops import LACKS, run_shell, unpooled, write_file


class OpenAIAgentsSubject(Subject):
    """The real SDK, whose models ask the scripted server by the real client of OpenAI's."""

    name = "openai-agents"
    dialect = "openai-chat"
    recipe = "tests.harnesses.openai_agents:SUBJECT"
    lacks: ClassVar[Mapping[str, str]] = LACKS

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        adapter = OpenAIAgents(_agent(upstream), policies={"ask_other": "safe"})
        return Agent(self.name, adapter, tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="run_shell", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write_file", input={"path": path, "text": text})

    def sub_agent(self, conversation: str) -> ToolUse:
        return ToolUse(name="ask_other", input={"told": prompt(conversation)})


def _agent(upstream: str) -> TheirAgent[Any]:
    client = AsyncOpenAI(api_key="k", base_url=f"{upstream}/v1", max_retries=0, http_client=unpooled())
    model = OpenAIChatCompletionsModel("gpt-5.5", client)
    own: list[TheirTool] = [function_tool(run_shell), function_tool(write_file)]
    other: TheirAgent[Any] = TheirAgent("other", instructions="You look into things.", model=model, tools=own)

    @function_tool
    async def ask_other(told: str) -> str:
        """Have another agent look into something."""
        return str((await run_agent(this_call().io, other, told)).final_output)

    return TheirAgent("clerk", instructions="You help.", model=model, tools=[*own, ask_other])


SUBJECT = OpenAIAgentsSubject()
