"""The port between a loop of one's own and a model, whoever provides it.

A conversation is a list of messages, each a list of parts; all of it is JSON and is what stands in the log. A `Model`
knows one provider's API and holds no durability: whoever asks it writes the intent before and the outcome after
(`outlast.calls.Calls`), and owns the retries.

What is hashed and compared at recovery is the `Request` as it stands here, not what a provider's SDK makes of it, so
that another version of an SDK asks the same. Fields are only added, with a default; defaults are left out of the text.
Keys, addresses and headers belong to the `Model` and are in no request.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import msgspec

from outlast.calls import MAIN, ModelAsk, ToolAsk
from outlast.codec import canonical
from outlast.errors import BadInput, BadPayload, ModelError
from outlast.ids import digest
from outlast.records import Usage

Stop: TypeAlias = Literal["end", "tools", "length", "context", "refusal", "pause", "other"]
"""Why an answer ends: it is complete · it waits for tool results · `max_tokens` were written · the model's context is
full · the model or its provider declined · the provider wants to be asked again with this answer at the end · else."""
ToolChoice: TypeAlias = Literal["auto", "any", "none"]
"""The model may call tools · must call one · must not."""
PieceKind: TypeAlias = Literal["text", "thinking"]
Show: TypeAlias = Callable[[PieceKind, str], None]
"""Gets each piece of text or thinking as it comes."""

_MAGIC: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


class Part(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Common base of the parts of a message."""


class TextPart(Part, frozen=True, tag="text"):
    """Words."""

    text: str
    about: dict[str, Any] = {}
    """What the provider says about them besides, citations for one. Not sent back."""


class ImagePart(Part, frozen=True, tag="image"):
    """An image: its bytes (base 64 in JSON), or where the provider can fetch it. Made by `image`."""

    data: bytes = b""
    media_type: str = ""
    """`image/png`, `image/jpeg`, `image/gif`, `image/webp`; of `data`."""
    url: str = ""


Parts: TypeAlias = tuple[TextPart | ImagePart, ...]
"""What a tool's result is that shows images."""


class ThinkingPart(Part, frozen=True, tag="thinking"):
    """What the model thought before it spoke."""

    text: str
    """As far as the provider shows it."""
    provider: str = ""
    """Whose `data` it is: `Model.provider`."""
    data: dict[str, Any] = {}
    """As the provider gave it, signatures and all: goes back to it unchanged, and to no other."""


class OpaquePart(Part, frozen=True, tag="opaque"):
    """Something of the provider's own, a search that it ran itself for one: goes back unchanged, and to no other."""

    provider: str
    data: dict[str, Any]


class ToolCallPart(Part, frozen=True, tag="tool_call"):
    """The model wants a tool to run."""

    id: str
    """Unique within the conversation."""
    name: str
    arguments: dict[str, Any] = {}
    unreadable: str = ""
    """What the model wrote where its arguments should be, when that is no JSON object; `arguments` is empty then. The
    tool must not run: give `unreadable_result` back."""


class ToolResultPart(Part, frozen=True, tag="tool_result"):
    """How a tool call ended, for the model to read."""

    call_id: str
    parts: tuple[TextPart | ImagePart, ...] = ()
    is_error: bool = False


class _Message(msgspec.Struct, frozen=True, tag_field="role", omit_defaults=True):
    """Common base of the messages of a conversation."""


class UserMessage(_Message, frozen=True, tag="user"):
    """What a person, or the application, says. Made by `user`."""

    parts: tuple[TextPart | ImagePart, ...]


class AssistantMessage(_Message, frozen=True, tag="assistant"):
    """What the model said."""

    parts: tuple[TextPart | ThinkingPart | ToolCallPart | OpaquePart, ...]

    @property
    def text(self) -> str:
        """Its words, without its thoughts."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """What it wants to run, in order; parallel when several."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


class ToolMessage(_Message, frozen=True, tag="tool"):
    """The results of every tool call of the answer before, in any order."""

    results: tuple[ToolResultPart, ...]


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it."""

    name: str
    description: str
    schema: dict[str, Any]
    """JSON schema (2020-12) of its arguments, an object."""


class OutputSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer's text must be JSON that fits a schema. Made by `outlast.output.output_of`."""

    name: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model is asked."""

    model: str
    """The provider's name for it: `Model.name`, or another that the same `Model` serves."""
    messages: tuple[Message, ...]
    """Ends with a user or tool message, or with an answer that paused."""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    only_tool: str = ""
    """The name of the one tool that the model must call; stands above `tool_choice`."""
    parallel_tools: bool = True
    """Whether one answer may call several tools."""
    max_tokens: int = 0
    """Tokens that the answer may have; 0 leaves it to the `Model`."""
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    output: OutputSpec | None = None
    extras: dict[str, Any] = {}
    """Members of the provider's own request body, laid over what is made of the rest; null takes one out. JSON, and
    never a secret: it stands in the log."""

    def __post_init__(self) -> None:
        """Make the text of equal requests equal: 1 and 1.0 are one temperature."""
        if self.temperature is not None:
            msgspec.structs.force_setattr(self, "temperature", float(self.temperature))


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model answered."""

    message: AssistantMessage
    """Goes into the next request as it is. May be empty."""
    stop: Stop
    usage: Usage | None = None
    """None when the provider reported nothing; its cost is 0 where the price is not known."""
    model: str = ""
    """Which model answered, as the provider calls it."""
    id: str = ""
    """The provider's name for the answer."""
    detail: dict[str, Any] = {}
    """What the provider says about the ending, in its own words: its stop reason, why it refused."""


def quiet(kind: PieceKind, piece: str) -> None:
    """Show nothing."""


class Model(Protocol):
    """A model of one provider. Holds no durability and tries once: whoever asks owns the retries.

    Ready when constructed, in any event loop; nothing is imported, connected or read before the first `ask` but what
    the module itself imports. Credentials are read for each `ask`, so that a changed one counts at once.
    """

    @property
    def name(self) -> str:
        """The model that it stands for: what `Request.model` usually is."""
        ...

    @property
    def provider(self) -> str:
        """Whose API it speaks, `anthropic` or `openai-chat`; marks the parts that only this provider understands."""
        ...

    @property
    def context_tokens(self) -> int:
        """Tokens that request and answer may have together; 0 when not known."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Of the software that asks, for the attempt's record."""
        ...

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        """Send `request` once and hear the answer to its end, within the `Model`'s own deadlines.

        `show` is called from the same task, before `ask` returns. What it was given is void when `ask` raises.

        Raises:
            ModelCallFailed: no answer, half of one or nonsense; the same request may get another answer later
                (`outlast.calls.is_passing`), no sooner than `retry_after_s` from now.
            ModelCallRejected: the same request would get the same refusal: it is wrong, or the key is.
            PromptTooLong: one of these: it does not fit into the model's context.
            BadPayload: a schema or an extra in it is not JSON, or it is too large; nothing was sent.
        """
        ...


# making


def image(data: bytes, media_type: str = "") -> ImagePart:
    """An image from its bytes; PNG, JPEG, GIF and WebP are recognised.

    Raises:
        BadInput: `media_type` is not given, and the bytes are none of these.
    """
    known = media_type or next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "")
    if not known and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        known = "image/webp"
    if not known:
        raise BadInput(detail="These bytes are no PNG, JPEG, GIF or WebP image. Name their media type.")
    return ImagePart(data, known)


def user(*parts: str | TextPart | ImagePart) -> UserMessage:
    """A message from words and images."""
    return UserMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def tool_result(
    call_id: str, value: str | Sequence[TextPart | ImagePart], *, is_error: bool = False
) -> ToolResultPart:
    """The result of a tool call from its text, or from parts."""
    parts = (TextPart(value),) if isinstance(value, str) else tuple(value)
    return ToolResultPart(call_id, parts, is_error)


def unreadable_result(call: ToolCallPart) -> ToolResultPart:
    """What the model must read of a call whose arguments are no JSON object."""
    text = f"The tool was not run: its arguments are no JSON object. Call {call.name} again with one."
    return tool_result(call.id, text, is_error=True)


# to the log and back


def model_ask(request: Request, *, lane: str = MAIN, asked_by: int = 0) -> ModelAsk:
    """`request` as `Calls.open_model` takes it; its `match` is the same in every process and for ever.

    Raises:
        BadPayload: a schema or an extra in it is not JSON.
    """
    try:
        frame: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(request, messages=()))
        messages: list[Any] = msgspec.to_builtins(request.messages)
    except TypeError as error:
        raise BadPayload(what="The model request", reason=str(error)) from None
    del frame["messages"]
    match = digest(canonical(frame), canonical(messages))
    return ModelAsk(lane, request.model, match, frame, messages, asked_by)


def read_request(frame: Mapping[str, Any], messages: Sequence[Any]) -> Request:
    """The request that `model_ask` took apart.

    Raises:
        msgspec.ValidationError: it is none of ours.
    """
    return msgspec.convert({**frame, "messages": messages}, Request)


def answer_json(answer: Answer) -> dict[str, Any]:
    """`answer` as `Calls.settle_model` takes it."""
    return cast("dict[str, Any]", msgspec.to_builtins(answer))


def read_answer(value: Mapping[str, Any]) -> Answer:
    """The answer that `answer_json` wrote, from the log.

    Raises:
        msgspec.ValidationError: it is none of ours.
    """
    return msgspec.convert(value, Answer)


def asks_of(answer: Answer) -> tuple[ToolAsk, ...]:
    """The tool calls of an answer that may run; those that nobody can read are not among them."""
    return tuple(
        ToolAsk(call.id, call.name, call.arguments)
        for call in answer.message.tool_calls
        if not call.unreadable
    )


def billed(error: ModelError) -> Usage | None:
    """What a failed call cost, as far as the provider reported it, for `Calls.void_model`."""
    return error.usage if isinstance(error.usage, Usage) else None
