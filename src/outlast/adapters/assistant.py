"""A ready-made agent loop, for those who bring none: ask the model, run the tools it calls, until it calls none.

Everything goes through `outlast.adapters.python`, so what is promised of a loop of one's own is promised of this one.
What a deployment may change — instructions, tools, limits — is written down when a turn begins and holds to its end:
an open turn goes on as it began, and the next one has what is new.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import msgspec

from outlast.adapter import Attachment
from outlast.adapters.conversation import Conversation
from outlast.adapters.history import said
from outlast.adapters.python import IO, Loop
from outlast.attaching import TEXT, as_words
from outlast.errors import AnswerUnfit, BadInput, PromptTooLong, TooManyCalls
from outlast.model import (
    Answer,
    AssistantMessage,
    ImagePart,
    Message,
    Model,
    OutputSpec,
    Request,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    tool_result,
    unreadable_result,
    user,
)
from outlast.output import Output, output_of
from outlast.parts import MEDIA_TYPES

GO_ON: Final = "You were cut at the most tokens that an answer may have. Go on exactly where you stopped."
UNFIT: Final = (
    "That answer cannot be used: {reason}. Answer again, with nothing but JSON of the shape asked for."
)
UNFIT_TIMES: Final = 2
"""How often in a turn the model is told that its answer does not fit."""
SUMMARISE: Final = (
    "The conversation above will be replaced by what you write now, so write down everything that is needed to go on: "
    "what was asked for, in the words that matter; what was done, with names, numbers, paths and ids as they are; what "
    "was decided and why; what went wrong or is in doubt; what is left to do. Call no tool. Write the notes only."
)
SUMMARY: Final = "What happened so far, in notes of your own:\n\n{notes}"


class Assistant(Loop):
    """The adapter of a ready-made agent: a model with instructions and the agent's tools.

    A turn ends with the first answer that calls no tool; its text, or with `output` its value, is the result. The
    turns of a session are one conversation. When the model's context fills, the older part is summed up by a model call
    of its own.

    Args:
        model: whom to ask. A session may name another model of the same provider (`settings={"model": "…"}`).
        instructions: the system prompt.
        output: the type that the last answer must have (`outlast.output.output_of`), or that function's result.
        max_calls: how often a turn may ask the model.
        compact_at: the part of `Model.context_tokens` that may be full before the conversation is summed up.
        more: further fields of every `Request`: `max_tokens`, `temperature`, `extras`.
    """

    name = "assistant"

    def __init__(
        self,
        model: Model,
        instructions: str = "",
        *,
        output: Any = None,
        max_calls: int = 200,
        compact_at: float = 0.8,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(self._carry, settings={"model": model.name}, attachments={*MEDIA_TYPES, TEXT})
        self._model = model
        self._output: Output[Any] | None = None
        if output is not None:
            self._output = cast("Output[Any]", output) if isinstance(output, Output) else output_of(output)
        self._plan = _Plan(
            model=model.name,
            system=instructions,
            output=None if self._output is None else self._output.spec,
            more=dict(more or {}),
            context_tokens=model.context_tokens,
            compact_at=compact_at,
            max_calls=max_calls,
        )
        _check(self._plan)

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), **self._model.versions()}

    async def _carry(self, io: IO, prompt: str) -> object:
        plan = msgspec.convert(await io.once("plan", lambda: self._planned(io)), _Plan)
        history = await io.history()
        talk = Conversation(list(history.messages), history.tokens)
        talk.add(user(*map(_part, await io.attachments()), prompt))
        return await _Turn(io, self._model, plan, talk).carry(self._output)

    def _planned(self, io: IO) -> object:
        tools = [ToolSpec(tool.name, tool.description, dict(tool.schema)) for tool in io.tools.values()]
        model = str(io.settings.get("model") or self._plan.model)
        return msgspec.to_builtins(msgspec.structs.replace(self._plan, model=model, tools=tuple(tools)))


def _part(attachment: Attachment) -> str | ImagePart:
    if attachment.media_type in MEDIA_TYPES:
        return ImagePart(attachment.data, attachment.media_type)
    return as_words(attachment)


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a whole turn, whatever is deployed meanwhile. It stands in the log, defaults and all."""

    model: str
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    more: dict[str, Any] = {}
    context_tokens: int = 0
    compact_at: float = 0.8
    max_calls: int = 200
    summarise: str = SUMMARISE

    def request(self, messages: list[Message], **other: Any) -> Request:
        """What the model is asked about `messages`."""
        own: dict[str, Any] = {"system": self.system, "tools": self.tools, "output": self.output}
        return Request(model=self.model, messages=tuple(messages), **{**own, **self.more, **other})


class _Turn:
    """One turn of the conversation."""

    def __init__(self, io: IO, model: Model, plan: _Plan, talk: Conversation) -> None:
        self._io = io
        self._model = model
        self._plan = plan
        self._talk = talk
        self._asked = 0

    async def carry(self, output: Output[Any] | None) -> object:
        """Ask and run tools until an answer calls none; returns the turn's result."""
        text, unfit = "", 0
        while True:
            answer = await self._ask()
            if answer.message.tool_calls:
                text = ""
                await self._run(answer.message.tool_calls)
                continue
            text += answer.message.text
            if answer.stop == "length":
                self._talk.add(user(GO_ON))
            elif answer.stop != "pause":
                try:
                    return _result(answer, text, output)
                except AnswerUnfit as error:
                    unfit += 1
                    if output is None or unfit > UNFIT_TIMES or answer.stop == "refusal":
                        raise
                    text = ""
                    self._talk.add(user(UNFIT.format(reason=error.facts["reason"])))

    async def _ask(self) -> Answer:
        """The answer to the conversation so far, which is made shorter where it must be."""
        if self._talk.is_beyond(self._plan.compact_at * self._plan.context_tokens):
            await self._compact()
        while True:
            for steer in self._io.steers():  # right before the call that takes them
                self._talk.add(user(steer))
            self._count()
            try:
                answer = await self._io.model(self._model, self._plan.request(self._talk.messages))
            except PromptTooLong:
                if not await self._compact():
                    raise
                continue
            if answer.stop != "context" or not await self._compact():
                self._talk.answered(answer)
                return answer

    async def _run(self, calls: tuple[ToolCallPart, ...]) -> None:
        """Run the tool calls of an answer at once; each gets a result, in order."""
        self._talk.add(ToolMessage(tuple(await self._io.gather(*map(_job, calls)))))

    async def _compact(self) -> bool:
        """Put a summary in place of the older part. False when nothing is left that could be summed up."""
        cut = self._talk.cut()
        while cut >= 2:  # of less, a summary would be no shorter
            notes = await self._notes(self._talk.messages[:cut])
            if notes is not None:
                self._talk.sum_up(cut, user(SUMMARY.format(notes=notes)))
                return True
            cut = self._talk.boundary(cut // 2)
        return False

    async def _notes(self, messages: list[Message]) -> str | None:
        """A summary of `messages`; None when they are too long even for that.

        A lane of its own: the main one is the conversation, which the session's next turn goes on with.
        """
        asked = [*messages, user(self._plan.summarise)]
        # The tools stay, though none may be called: providers want those that a conversation names, and what comes
        # before the new question is what their caches hold.
        request = self._plan.request(asked, output=None, tool_choice="none")
        self._count()
        try:
            (answer,) = await self._io.gather(lambda lane: lane.model(self._model, request))
        except PromptTooLong:
            return None
        if answer.stop == "context":
            return None
        if not answer.message.text.strip():
            raise AnswerUnfit(wanted="summary", reason="it is empty", said="")
        return answer.message.text

    def _count(self) -> None:
        if self._asked >= self._plan.max_calls:
            raise TooManyCalls(calls=self._asked)
        self._asked += 1


def _job(call: ToolCallPart) -> Callable[[IO], Awaitable[ToolResultPart]]:
    async def run(lane: IO) -> ToolResultPart:
        if call.unreadable:
            return unreadable_result(call)
        told, bad = said(await lane.result(call.name, call.arguments))
        return tool_result(call.id, told, is_error=bad)

    return run


def _result(answer: Answer, text: str, output: Output[Any] | None) -> object:
    """The turn's result, as JSON.

    Raises:
        AnswerUnfit: the model declined, or the answer is not of the shape that was asked for.
    """
    if output is not None:
        whole = AssistantMessage((TextPart(text),))
        value = output.read(msgspec.structs.replace(answer, message=whole))
        dump = getattr(value, "model_dump", None)
        return msgspec.to_builtins(value) if dump is None else dump(mode="json")
    if answer.stop == "refusal":
        raise AnswerUnfit(wanted="result", reason="the model declined", said=text)
    return text


def _check(plan: _Plan) -> None:
    if not (0 < plan.compact_at <= 1 and plan.max_calls > 0):
        raise BadInput(detail="compact_at is a part, above 0 and up to 1; max_calls is at least 1.")
    try:
        plan.request([])
    except TypeError as error:
        raise BadInput(detail=f"more= holds what is no field of a Request: {error}.") from None
