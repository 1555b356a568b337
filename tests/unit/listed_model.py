"""A model in this process that follows a list: for tests of what a loop does, not of how a provider is asked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from outlast.errors import PromptTooLong
from outlast.model import (
    Answer,
    AssistantMessage,
    Part,
    Request,
    Show,
    Stop,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    quiet,
)
from outlast.records import Usage

Step = Answer | Exception | Callable[[Request], "Answer | Exception"]

TOO_LONG: Final = PromptTooLong(model="listed", status=400, reason="too long.")


def says(text: str, *calls: ToolCallPart, stop: Stop | None = None, tokens: int = 0) -> Answer:
    """An answer, with as many tokens read as are given."""
    parts = (TextPart(text),) if text else ()
    usage = Usage(input_tokens=tokens, output_tokens=1) if tokens else None
    ending: Stop = stop or ("tools" if calls else "end")
    return Answer(message=AssistantMessage((*parts, *calls)), stop=ending, usage=usage, model="listed")


def wants(name: str, /, *, id: str = "", **arguments: Any) -> ToolCallPart:  # noqa: A002 - the provider's word
    """A tool call in an answer."""
    return ToolCallPart(id or f"id-{name}-{arguments}", name, arguments)


class Listed:
    """Answers the n-th request by the n-th step, as a provider does that nobody asks twice.

    Args:
        steps: an answer, what to raise, or what makes one of the request.
    """

    name = "listed"
    provider = "listed"

    def __init__(self, *steps: Step, context_tokens: int = 0) -> None:
        self.steps = list(steps)
        self.context_tokens = context_tokens
        self.requests: list[Request] = []

    def versions(self) -> Mapping[str, str]:
        return {"listed": "1"}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        step = self.steps[len(self.requests)]
        self.requests.append(request)
        said = step(request) if callable(step) else step
        if isinstance(said, Exception):
            raise said
        show("text", said.message.text)
        return said


def texts(request: Request) -> Sequence[str]:
    """What was said, message by message, and the text of each result."""
    said: list[str] = []
    for message in request.messages:
        match message:
            case AssistantMessage():
                said.append(message.text)
            case UserMessage():
                said += words(message.parts)
            case ToolMessage():
                said += [text for result in message.results for text in words(result.parts)]
    return said


def words(parts: Iterable[Part]) -> Sequence[str]:
    """The texts among parts."""
    return [part.text for part in parts if isinstance(part, TextPart)]
