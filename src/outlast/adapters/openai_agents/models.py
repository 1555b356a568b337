"""Models whose answers stand in the log before anybody reads them."""

from collections.abc import AsyncIterator, Container, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from agents import (
    Handoff,
    Model,
    ModelProvider,
    ModelResponse,
    ModelSettings,
    OpenAIChatCompletionsModel,
)
from agents.agent_output import AgentOutputSchemaBase
from agents.exceptions import ModelBehaviorError
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.models.interface import ModelTracing
from agents.tool import Tool as TheirTool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseReasoningTextDeltaEvent,
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_prompt_param import ResponsePromptParam

from outlast.adapter import ToolAsk
from outlast.adapters.foreign import ForeignAnswer, Heard
from outlast.adapters.openai_agents.failures import told_apart
from outlast.adapters.openai_agents.items import (
    frame_of,
    listed,
    read_response,
    request_of,
    response_json,
    response_of,
    streamed,
    usage_of,
)
from outlast.adapters.python import IO

Asked = str | list[TResponseInputItem]


class Lanes(Protocol):
    """Where a run's model calls go."""

    @property
    def stream(self) -> bool:
        """Ask models for streams."""
        ...

    def lane(self) -> IO:
        """The lane that asks now."""
        ...

    def steered(self, items: list[Any]) -> list[Any]:
        """The items with what the turn was told meanwhile."""
        ...

    def asks_of(self, response: ModelResponse, tools: Sequence[TheirTool]) -> Sequence[ToolAsk]:
        """The tool calls of an answer that the run will make."""
        ...


class DurableProvider(ModelProvider):
    """What finds models by name, each wrapped."""

    def __init__(self, wrapped: ModelProvider, run: Lanes) -> None:
        self.wrapped = wrapped
        self._run = run

    def get_model(self, model_name: str | None) -> Model:
        return DurableModel(self.wrapped.get_model(model_name), self._run)

    async def aclose(self) -> None:
        await self.wrapped.aclose()


class DurableModel(Model):
    """A model, wrapped."""

    def __init__(self, wrapped: Model, run: Lanes) -> None:
        self.wrapped = wrapped
        self._run = run
        self._counts_only_if_asked = isinstance(wrapped, OpenAIChatCompletionsModel)
        self._name = str(getattr(wrapped, "model", type(wrapped).__name__))

    async def close(self) -> None:
        await self.wrapped.close()

    async def get_response(  # noqa: PLR0913, PLR0917 - as the SDK has it
        self,
        system_instructions: str | None,
        input: Asked,  # noqa: A002
        model_settings: ModelSettings,
        tools: list[TheirTool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> ModelResponse:
        """The answer: from the log, or asked for now."""
        items = self._run.steered(listed(input))
        more: dict[str, Any] = {
            "previous_response_id": previous_response_id,
            "conversation_id": conversation_id,
            "prompt": prompt,
        }
        frame = frame_of(system_instructions, model_settings, output_schema, handoffs)
        request = request_of(self._name, items, {**frame, **more}, tools)
        settings = model_settings
        if self._run.stream and settings.include_usage is None and self._counts_only_if_asked:
            settings = replace(settings, include_usage=True)
        asked = (system_instructions, items, settings, tools, output_schema, handoffs, tracing)

        async def send(show: Heard) -> ForeignAnswer:
            with told_apart(self._name):
                if self._run.stream:
                    response = await _hear(self.wrapped.stream_response(*asked, **more), show)
                else:
                    response = await self.wrapped.get_response(*asked, **more)
            response = with_own_ids(
                response, {ask.harness_id for ask in self._run.asks_of(response, tools)}, show
            )
            asks = self._run.asks_of(response, tools)
            return ForeignAnswer(response_json(response), asks, usage_of(response, self._name))

        return read_response(await self._run.lane().foreign_model(request, send))

    async def stream_response(  # noqa: PLR0913, PLR0917 - as the SDK has it
        self,
        system_instructions: str | None,
        input: Asked,  # noqa: A002
        model_settings: ModelSettings,
        tools: list[TheirTool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """The answer, once it is in the log, as the end of a stream: what acts on it acts on what is kept."""
        response = await self.get_response(
            system_instructions,
            input,
            model_settings,
            tools,
            output_schema,
            handoffs,
            tracing,
            previous_response_id=previous_response_id,
            conversation_id=conversation_id,
            prompt=prompt,
        )
        yield ResponseCompletedEvent.model_construct(
            type="response.completed", response=streamed(response, self._name), sequence_number=0
        )


async def _hear(stream: AsyncIterator[TResponseStreamEvent], show: Heard) -> ModelResponse:
    whole: Response | None = None
    async for event in stream:
        if isinstance(event, ResponseCompletedEvent):
            whole = event.response
        elif event.type in {"response.failed", "response.incomplete", "error"}:
            said = f"The model's answer ended as {event.type}."
            raise ModelBehaviorError(said)
        else:
            kind, text = _shown(event)
            if text:
                show(kind, text)
            await show.heard()
    if whole is None:
        said = "The model's answer was cut."
        raise ModelBehaviorError(said)
    return response_of(whole)


def _shown(event: TResponseStreamEvent) -> tuple[Literal["text", "thinking"], str]:
    match event:
        case ResponseTextDeltaEvent(delta=text):
            return "text", text
        case ResponseReasoningTextDeltaEvent(delta=text):
            return "thinking", text
        case _:
            return "text", ""


def with_own_ids(response: ModelResponse, run_here: Container[str], show: Heard) -> ModelResponse:
    """The answer with an id of its own for each call that the run will make."""
    output = [
        item.model_copy(update={"call_id": show.own_id(item.call_id)})
        if isinstance(item, ResponseFunctionToolCall) and item.call_id in run_here
        else item
        for item in response.output
    ]
    return replace(response, output=output)


def calls_of(response: ModelResponse) -> Sequence[ResponseFunctionToolCall]:
    """The function calls of an answer, tools' and handoffs'."""
    return [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
