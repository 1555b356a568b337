"""An agent of the SDK's and those it hands over to, wrapped for one run: the agents themselves stay as they are."""

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

import msgspec
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    Model,
    ModelResponse,
    RunContextWrapper,
)
from agents.tool import (
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    LocalShellTool,
    ShellTool,
    invoke_function_tool,
)
from agents.tool import Tool as TheirTool
from agents.tool_context import ToolContext
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from outlast.adapter import ToolAsk, ToolResult
from outlast.adapters.endings import said_by
from outlast.adapters.foreign import ForeignCall
from outlast.adapters.openai_agents.models import DurableModel, calls_of
from outlast.adapters.openai_agents.within import Within, begun_within, here
from outlast.adapters.python import IO
from outlast.errors import BadInput, ToolError
from outlast.tool import Tool, result_text

Invoke: TypeAlias = Callable[[ToolContext[Any], str], Awaitable[Any]]
ListTools: TypeAlias = Callable[[RunContextWrapper[Any]], Awaitable[list[TheirTool]]]
RAISED: Final = "openai-agents: raised"
"""Tells what a tool raised through the SDK from what the model reads."""
_LOCAL: Final = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool, ShellTool)
_REFUSED: Final = (
    "{agent} has a {tool}, which acts on this machine in ways that are not written down. Offer what it does as a "
    "function tool."
)


@dataclass(eq=False)
class Run:
    """One run of an agent within a lane of a loop."""

    io: IO
    stream: bool = True
    ours: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools of the outlast agent, which its agents are offered beside their own."""
    _home: Within | None = field(default_factory=here)
    """The tool or guardrail that began it; None for a turn's own."""
    _agents: dict[int, Agent[Any]] = field(default_factory=dict[int, Agent[Any]])
    _told: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    _guarded: dict[str, int] = field(default_factory=dict[str, int])

    # models

    def lane(self) -> IO:
        """The lane of what asks within the run, a tool of it for one; else that of the run."""
        within = here()
        return self.io if within is None or within is self._home else within.io

    def steered(self, items: list[Any]) -> list[Any]:
        """The items with what the turn was told meanwhile, as the user's words from the request on that took it."""
        if self._home is not None or self.lane() is not self.io:
            return items  # it is the turn that was told
        new = self.io.steers()
        if new:
            self._told[len(items)] = [{"role": "user", "content": text} for text in new]
        steered = list(items)
        for at, words in sorted(self._told.items(), reverse=True):
            steered[at:at] = words
        return steered

    def asks_of(self, response: ModelResponse, tools: Sequence[TheirTool]) -> Sequence[ToolAsk]:
        """The calls of tools that are wrapped: no handoffs, and nothing of an agent that runs within a tool."""
        wrapped = {
            tool.name
            for tool in tools
            if isinstance(tool, FunctionTool) and isinstance(tool.on_invoke_tool, Journalled)
        }
        return [
            ToolAsk(call.call_id, call.name, _arguments(call.arguments))
            for call in calls_of(response)
            if call.name in wrapped
        ]

    # agents

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """The agent as this run has it; the same for the same one, whoever hands over to it."""
        known = self._agents.get(id(agent))
        if known is not None:
            return known
        mine = agent.clone(handoffs=[], tools=[])
        self._agents[id(agent)] = self._agents[id(mine)] = mine
        if isinstance(agent.model, Model):
            mine.model = DurableModel(agent.model, self)
        mine.tools = [
            *(self.tool(tool, agent.name) for tool in agent.tools),
            *map(self._our, self.ours.values()),
        ]
        mine.handoffs = [self._handoff(one) for one in agent.handoffs]
        mine.input_guardrails = [self._guardrail(one) for one in agent.input_guardrails]
        mine.output_guardrails = [self._guardrail(one) for one in agent.output_guardrails]
        if agent.mcp_servers:
            mine.__dict__["get_mcp_tools"] = self._over_mcp(mine.get_mcp_tools)
        return mine

    def _over_mcp(self, theirs: ListTools) -> ListTools:
        """What lists the tools of an agent's MCP servers, each wrapped."""

        async def listed(run_context: RunContextWrapper[Any]) -> list[TheirTool]:
            return [self.tool(tool, "mcp") for tool in await theirs(run_context)]

        return listed

    def tool(self, tool: TheirTool, agent: str) -> TheirTool:
        """The tool, wrapped if it runs here.

        Raises:
            BadInput: it acts here, and not as a function.
        """
        if isinstance(tool, _LOCAL):
            raise BadInput(detail=_REFUSED.format(agent=agent, tool=type(tool).__name__))
        if not isinstance(tool, FunctionTool):
            return tool
        mine = copy.copy(tool)
        mine.on_invoke_tool = Journalled(self, tool.name, _within_its_time(tool))
        mine.timeout_seconds = None  # it counts within the call, so that what it comes to is in the log
        return mine

    def _our(self, tool: Tool) -> TheirTool:
        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=dict(tool.schema),
            on_invoke_tool=Journalled(self, tool.name, _not_here),
            strict_json_schema=False,
        )

    def _handoff(self, handoff: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(handoff, Agent):
            return self.agent(handoff)
        mine, theirs = copy.copy(handoff), handoff.on_invoke_handoff

        async def invoke(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            return self.agent(await theirs(context, arguments))

        mine.on_invoke_handoff = invoke
        return mine

    def _guardrail(self, guardrail: Any) -> Any:
        """A guardrail whose word stands in the log: a model may be behind it."""
        mine, theirs, name = copy.copy(guardrail), guardrail.guardrail_function, guardrail.get_name()
        mine.name = name

        async def check(*about: Any) -> GuardrailFunctionOutput:
            async def make(lane: IO) -> object:
                with begun_within(lane, stream=self.stream):
                    said = theirs(*about)
                    output = await said if inspect.isawaitable(said) else said
                info = to_jsonable_python(output.output_info, fallback=str)
                return {"info": info, "tripped": output.tripwire_triggered}

            nth = self._guarded[name] = self._guarded.get(name, 0) + 1
            key = f"guardrail.{name}.{nth}"
            kept = await self.io.beside(key, lambda lane: _kept(lane, make))
            self.io.leave(key)
            return GuardrailFunctionOutput(kept["info"], kept["tripped"])

        mine.guardrail_function = check
        return mine


async def _kept(lane: IO, make: Callable[[IO], Awaitable[object]]) -> Any:
    """What `make` returned when the turn first came here."""
    made = None if lane.made_before else await make(lane)
    return await lane.once("guardrail", lambda: made)


class Journalled:
    """How a wrapped tool is called: its calls are known by the ids that their models gave them."""

    def __init__(self, run: Run, name: str, theirs: Invoke) -> None:
        self._run = run
        self._name = name
        self._theirs = theirs

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        """How the call ends: from the log, or run now."""
        raised: list[Exception] = []

        async def run(call: ForeignCall) -> ToolResult:
            try:
                with begun_within(call.io, stream=self._run.stream):
                    return ToolResult("ok", _plain(await self._theirs(context, arguments)))
            except Exception as error:  # noqa: BLE001 - raised below, the same in every attempt
                raised.append(error)
                return ToolResult("error", {RAISED: said_by(error)})

        result = await self._run.io.foreign_tool(context.tool_call_id, self._name, _arguments(arguments), run)
        marked = cast("dict[str, Any]", result.value if isinstance(result.value, dict) else {})
        if RAISED in marked:
            said = str(marked[RAISED])
            raise raised[0] if raised else ToolError(tool=self._name, status="error", said=said)
        value = cast("Any", marked or result.value)
        return value if result.status == "ok" else result_text(value)


def agents_as_tools(agent: Agent[Any]) -> Iterator[str]:
    """The names of tools that are agents, of an agent and of those that it may hand over to or ask."""
    met: dict[int, Agent[Any]] = {}
    left = [agent]
    while left:
        one = left.pop()
        if id(one) in met:
            continue
        met[id(one)] = one
        for tool in one.tools:
            inner = getattr(tool, "_agent_instance", None)
            if isinstance(tool, FunctionTool) and isinstance(inner, Agent):
                yield tool.name
                left.append(cast("Agent[Any]", inner))
        for handoff in one.handoffs:
            target = handoff if isinstance(handoff, Agent) else getattr(handoff, "_agent_ref", lambda: None)()
            if isinstance(target, Agent):
                left.append(cast("Agent[Any]", target))


def _within_its_time(tool: FunctionTool) -> Invoke:
    """How a tool is called, with its time-out where it has one."""
    if tool.timeout_seconds is None:
        return tool.on_invoke_tool

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        return await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)

    return invoke


async def _not_here(context: ToolContext[Any], _: str) -> Any:
    raise BadInput(detail=f"{context.tool_name} runs in the worker, and not here.")


def _plain(value: object) -> object:
    """What a tool returned, as JSON of which the SDK makes the same for a model."""
    match value:
        case BaseModel():
            return value.model_dump(mode="json", exclude_none=True)
        case list():
            return [_plain(one) for one in cast("list[object]", value)]
        case str() | int() | float() | bool() | None:
            return value
        case _:
            pass
    try:
        return value if msgspec.json.decode(msgspec.json.encode(value)) == value else str(value)
    except (TypeError, ValueError):
        return str(value)


def _arguments(text: str) -> Mapping[str, Any]:
    """The arguments of a call as the model wrote them; where they are no JSON object, as text."""
    try:
        found = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        found = None
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {"unreadable": text}
