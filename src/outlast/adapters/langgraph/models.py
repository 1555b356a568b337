"""Chat models whose calls are written down before and after, and asked once."""

# LangGraph ships no marker that it is typed, and both it and LangChain leave parameters of their own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence

from outlast.adapters.foreign import ForeignAnswer, ForeignRequest, Heard
from outlast.adapters.langgraph.failures import told
from outlast.adapters.langgraph.messages import asked_of, asks_of, dumped, loaded, usage_of, with_own_ids
from outlast.adapters.langgraph.running import Running, running

_NAMES: Final = ("model_name", "model", "model_id", "deployment_name")


def durable_model(model: BaseChatModel) -> "DurableModel":
    """The same model: in a turn its answers are read from the log where they stand there, and asked for once.

    Outside a turn it is asked as it always was.
    """
    return DurableModel(inner=model)


class DurableModel(BaseChatModel):
    """See `durable_model`."""

    inner: BaseChatModel

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type  # noqa: SLF001 - LangChain's own way to wrap a model

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(self.inner._identifying_params)  # noqa: SLF001 - the same

    @property
    def named(self) -> str:
        """What the provider calls the model."""
        found = (getattr(self.inner, name, None) for name in _NAMES)
        return next((one for one in found if isinstance(one, str) and one), type(self.inner).__name__)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = running.get()
        if turn is None:
            return _result(self.inner.invoke(messages, stop=stop, **kwargs))
        return turn.here(self._durably(turn, messages, stop, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = running.get()
        if turn is None:
            return _result(await self.inner.ainvoke(messages, stop=stop, **kwargs))
        return await self._durably(turn, messages, stop, kwargs)

    async def _durably(
        self, turn: Running, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> ChatResult:
        request = ForeignRequest(
            self.named,
            [asked_of(message) for message in messages],
            {"class": type(self.inner).__name__, "stop": stop, "kwargs": _json(kwargs)},
        )

        async def send(show: Heard) -> ForeignAnswer:
            with told():
                message = await self.inner.ainvoke(list(messages), stop=stop, **kwargs)
            await show.heard()
            if message.text:
                show("text", str(message.text))
            message = with_own_ids(message, turn.names, show.own_id)
            asks = asks_of(message, turn.names)
            return ForeignAnswer(dumped(message), asks, usage_of(message, self.named))

        return _result(loaded(await turn.call(lambda io: io.foreign_model(request, send))))

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self._around(self.inner.bind_tools(tools, **kwargs))

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        return self._around(self.inner.with_structured_output(schema, **kwargs))

    def _around(self, made: Any) -> Any:
        """What the model made of itself, with this one in its place."""
        if made is self.inner:
            return self
        if isinstance(made, RunnableBinding):
            return made.model_copy(update={"bound": self._around(made.bound)})
        if isinstance(made, RunnableSequence):
            return made.model_copy(update={"first": self._around(made.first)})
        if isinstance(made, RunnableParallel):
            steps = {name: self._around(step) for name, step in made.steps__.items()}
            return made.model_copy(update={"steps__": steps})
        return made


def _result(message: BaseMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _json(value: Any) -> Any:
    """The value with what is no JSON told by its type's name only: clients, classes."""
    if isinstance(value, dict):
        return {str(name): _json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json(part) for part in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    schema = getattr(value, "model_json_schema", None)
    return schema() if callable(schema) else type(value).__name__
