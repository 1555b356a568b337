"""The seams of one run of an agent: its models and its tools, wrapped; what it defers, waited for."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturn,
    UserPromptPart,
    tool_return_ta,
)
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import SchemaValidator, core_schema

from outlast.adapter import ToolResult
from outlast.adapters.endings import said_by
from outlast.adapters.foreign import ForeignAnswer, ForeignCall, Heard
from outlast.adapters.pydantic_ai.failures import as_raised, told_apart
from outlast.adapters.pydantic_ai.messages import (
    arguments_of,
    asks_of,
    read_response,
    request_of,
    response_json,
    usage_of,
    with_own_ids,
)
from outlast.adapters.python import IO
from outlast.errors import BadInput, ModelCallRejected, ToolError
from outlast.tool import Tool, result_text

ALLOW: Final = "allow"
DENY: Final = "deny"
RAISED: Final = "pydantic-ai: raised"
RETRY: Final = "pydantic-ai: retry"
RETURN: Final = "pydantic-ai: return"
"""Members that tell what a tool raised or returned, beside plain results."""
_DEFERS: Final = (
    "{name} deferred itself while it ran. Durably that must be known before: declare it with requires_approval=True, "
    "or as an external tool."
)
_ANY: Final = SchemaValidator(core_schema.any_schema())


@dataclass(eq=False)
class Durable(AbstractCapability[Any]):
    """One run of an agent within a lane of a loop.

    Args:
        io: the lane.
        stream: ask models for streams, so that watchers see what comes.
    """

    io: IO
    stream: bool = True
    told: dict[int, list[UserPromptPart]] = field(default_factory=dict[int, list[UserPromptPart]])
    """What the turn was told, by the place of the message that it was put into."""

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Every model that the run asks, whoever chose it."""
        return DurableModel(model, self)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
        """Every tool that the run has, whoever brought it."""
        return DurableToolset(toolset, self)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask a person about each call that needs approval, and wait for a signal for each that is done elsewhere."""
        approved, done = await asyncio.gather(
            asyncio.gather(*(self._approved(call) for call in requests.approvals)),
            asyncio.gather(*(self._done(call) for call in requests.calls)),
        )
        return DeferredToolResults(
            calls={call.tool_call_id: value for call, value in zip(requests.calls, done, strict=True)},
            approvals={
                call.tool_call_id: word for call, word in zip(requests.approvals, approved, strict=True)
            },
        )

    async def _approved(self, call: ToolCallPart) -> ToolApproved | ToolDenied:
        asked = f"May {call.tool_name} run with {result_text(arguments_of(call))}?"
        word = await self.io.beside(
            f"approve.{call.tool_call_id}", lambda lane: lane.ask(asked, choices=[ALLOW, DENY])
        )
        if word in {ALLOW, True}:
            return ToolApproved()
        return ToolDenied() if word in {DENY, False} else ToolDenied(message=result_text(word))

    async def _done(self, call: ToolCallPart) -> object:
        return await self.io.beside(
            f"external.{call.tool_call_id}", lambda lane: lane.wait_for(call.tool_call_id)
        )


class DurableModel(WrapperModel):
    """A model whose answers stand in the log before anybody reads them."""

    def __init__(self, wrapped: Model, run: Durable) -> None:
        super().__init__(wrapped)
        self._run = run

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The answer: from the log, or asked for now."""
        return await self._ask(messages, model_settings, model_request_parameters, None)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """The answer, once it is in the log, as a stream: what acts on a piece of it acts on what is kept."""
        response = await self._ask(messages, model_settings, model_request_parameters, run_context)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )

    async def _ask(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        context: RunContext[Any] | None,
    ) -> ModelResponse:
        asked = self._steered(messages)
        request = request_of(self.wrapped.model_id, asked, settings, parameters)

        async def send(show: Heard) -> ForeignAnswer:
            with told_apart(self.wrapped.model_name):
                if self._run.stream:
                    response = await self._hear(asked, settings, parameters, context, show)
                else:
                    response = await self.wrapped.request(asked, settings, parameters)
            response = with_own_ids(response, parameters, show.own_id)
            usage = usage_of(response, self.wrapped.model_name)
            return ForeignAnswer(response_json(response), asks_of(response, parameters), usage)

        try:
            return read_response(await self._run.io.foreign_model(request, send))
        except ModelCallRejected as error:
            raise as_raised(error, self.wrapped.model_name) from error

    async def _hear(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        context: RunContext[Any] | None,
        show: Heard,
    ) -> ModelResponse:
        async with self.wrapped.request_stream(messages, settings, parameters, context) as stream:
            async for event in stream:
                kind, text = _shown(event)
                if text:
                    show(kind, text)
                await show.heard()
            return stream.get()

    def _steered(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """The messages with what the turn was told meanwhile, as the user's words in the requests that took it."""
        told = self._run.told
        new = self._run.io.steers()
        if new:
            told[len(messages) - 1] = [UserPromptPart(text) for text in new]
        steered = list(messages)
        for at, parts in told.items():
            message = steered[at] if at < len(steered) else None
            if isinstance(message, ModelRequest):
                steered[at] = replace(message, parts=[*message.parts, *parts])
        return steered


def _shown(event: object) -> tuple[Literal["text", "thinking"], str]:
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return "text", text
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return "text", text
        case PartStartEvent(part=ThinkingPart(content=text)):
            return "thinking", text
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)):
            return "thinking", text or ""
        case _:
            return "text", ""


class DurableToolset(WrapperToolset[Any]):
    """Tools whose calls are known by the ids that their models gave them."""

    def __init__(self, wrapped: AbstractToolset[Any], run: Durable) -> None:
        super().__init__(wrapped)
        self._run = run

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """The same around what the wrapped toolset is for a run."""
        return DurableToolset(await self.wrapped.for_run(ctx), self._run)

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """The same around what the wrapped toolset is for a step."""
        return DurableToolset(await self.wrapped.for_run_step(ctx), self._run)

    def visit_and_replace(self, visitor: Any) -> AbstractToolset[Any]:
        """The same around what the wrapped toolset becomes."""
        return DurableToolset(self.wrapped.visit_and_replace(visitor), self._run)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """How the call ends: from the log, or run now."""
        raised: list[Exception] = []

        async def run(_: ForeignCall) -> ToolResult:
            try:
                return _returned(await self.wrapped.call_tool(name, tool_args, ctx, tool))
            except ModelRetry as error:
                return ToolResult("error", {RETRY: error.message})
            except ToolFailed as error:
                return ToolResult("error", error.message)
            except (ApprovalRequired, CallDeferred) as error:
                raise BadInput(detail=_DEFERS.format(name=name)) from error
            except Exception as error:  # noqa: BLE001 - raised below, the same in every attempt
                raised.append(error)
                return ToolResult("error", {RAISED: said_by(error)})

        call_id = ctx.tool_call_id or ""
        result = await self._run.io.foreign_tool(call_id, name, _plain(tool_args), run)
        if raised:
            raise raised[0]
        return _as_raised(name, result)


def _plain(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Validated arguments as JSON, for rules to look at."""
    return tool_return_ta.dump_python(dict(arguments), mode="json")


def _returned(value: object) -> ToolResult:
    """What a tool returned, as JSON."""
    if isinstance(value, ToolReturn):
        whole = {"return_value": value.return_value, "content": value.content, "metadata": value.metadata}
        return ToolResult("ok", {RETURN: tool_return_ta.dump_python(whole, mode="json", by_alias=True)})
    return ToolResult("ok", tool_return_ta.dump_python(value, mode="json", by_alias=True))


def _as_raised(name: str, result: ToolResult) -> Any:
    """The result of a call as the agent's own code knows it, the first time and ever after."""
    value = cast("Any", result.value)
    marked = cast("dict[str, Any]", result.value if isinstance(result.value, dict) else {})
    if RETRY in marked:
        raise ModelRetry(str(marked[RETRY]))
    if RAISED in marked:
        raise ToolError(tool=name, status="error", said=marked[RAISED])
    if result.status != "ok":
        raise ToolFailed(result_text(value))
    return ToolReturn(**marked[RETURN]) if RETURN in marked else value


class OurTools(AbstractToolset[Any]):
    """The tools of the outlast agent, offered to the agent's model beside its own."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools

    @property
    def id(self) -> str | None:
        """Tells it from other toolsets."""
        return "outlast"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools as pydantic-ai describes them to a model."""
        return {name: self._described(tool) for name, tool in self._tools.items()}

    def _described(self, tool: Tool) -> ToolsetTool[Any]:
        schema = dict(tool.schema)
        definition = ToolDefinition(
            name=tool.name, parameters_json_schema=schema, description=tool.description
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=0, args_validator=_ANY)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Never asked: the worker runs them."""
        raise BadInput(detail=f"{name} runs in the worker, and not here.")
