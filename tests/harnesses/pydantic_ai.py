"""pydantic-ai under the adapter contract: an agent that knows nothing of outlast, and tools of its own."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from anthropic import AsyncAnthropic
from pydantic_ai import Agent as TheirAgent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from outlast.adapter import Agent
from outlast.adapters.foreign import this_call
from outlast.adapters.pydantic_ai import PydanticAI, run_agent
from outlast.testing.adapter_contract import Subject
from outlast.testing.adapter_contract.stage import prompt
from outlast.testing.models import ToolUse
from outlast.tool import Tool
from tests.harnesses.loops import LACKS, run_shell, unpooled, write_file


class PydanticAISubject(Subject):
    """The real library, whose models ask the scripted server by the real client of Anthropic's."""

    name = "pydantic-ai"
    dialect = "anthropic"
    recipe = "tests.harnesses.pydantic_ai:SUBJECT"
    lacks: ClassVar[Mapping[str, str]] = LACKS

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, PydanticAI(_agent(upstream)), tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="run_shell", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write_file", input={"path": path, "text": text})

    def sub_agent(self, conversation: str) -> ToolUse:
        return ToolUse(name="ask_other", input={"told": prompt(conversation)})


def _agent(upstream: str) -> TheirAgent[Any, Any]:
    client = AsyncAnthropic(api_key="k", base_url=upstream, max_retries=0, http_client=unpooled())
    model = AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(anthropic_client=client))
    agent = TheirAgent(model, instructions="You help.")
    other = TheirAgent(model, instructions="You look into things.")
    for one in (agent, other):
        one.tool_plain(run_shell)
        one.tool_plain(write_file)

    @agent.tool_plain(metadata={"outlast": "safe"})
    async def ask_other(told: str) -> str:
        """Have another agent look into something."""
        return str((await run_agent(this_call().io, other, told)).output)

    return agent


SUBJECT = PydanticAISubject()
