"""The conversation that a loop goes on with: what the turns before said, in messages for a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from outlast.adapter import Talk, ToolResult
from outlast.codec import canonical
from outlast.model import (
    Message,
    Parts,
    ToolCallPart,
    ToolMessage,
    read_answer,
    read_request,
    tool_result,
    unreadable_result,
)
from outlast.parts import find_parts
from outlast.records import Usage
from outlast.tool import result_text

NOT_KNOWN: Final = (
    "The turn ended before a result of this call was recorded. It may have happened, in full or in part, or not at "
    "all. Check what is there before you rely on it."
)


@dataclass(frozen=True, slots=True)
class History:
    """A conversation so far."""

    messages: Sequence[Message] = ()
    """What the newest answer was asked with, the answer, and the result of each tool call in it. A prompt that no model
    has answered is not among them."""
    tokens: int = 0
    """Of the messages up to the answer, as its provider counted; 0 when it did not say."""


def history_of(talk: Talk) -> History:
    """The conversation as messages."""
    answer = read_answer(talk.answer)
    messages: list[Message] = [*read_request({"model": ""}, talk.messages).messages, answer.message]
    calls = answer.message.tool_calls
    if calls:
        messages.append(ToolMessage(tuple(_results(calls, talk))))
    return History(messages, tokens_of(answer.usage))


def tokens_of(usage: Usage | None) -> int:
    """Tokens of request and answer together."""
    if usage is None:
        return 0
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return read + usage.output_tokens if read else 0


def said(result: ToolResult) -> tuple[str | Parts, bool]:
    """How a call ended, as the model reads it: the text, or texts and images, and whether it is bad news."""
    parts = find_parts(result.value)
    return result_text(result.value) if parts is None else parts, result.status != "ok"


def _results(calls: Sequence[ToolCallPart], talk: Talk) -> Sequence[Any]:
    """One result for each call. Which run was whose is told by name and arguments: of equal ones, in order."""
    ended = [(_named(name, arguments), result) for name, arguments, result in talk.tools]
    results: list[Any] = []
    for call in calls:
        own = next((one for one in ended if one[0] == _named(call.name, call.arguments)), None)
        if call.unreadable:
            results.append(unreadable_result(call))
        elif own is None:
            results.append(tool_result(call.id, NOT_KNOWN, is_error=True))
        else:
            ended.remove(own)
            text, bad = said(own[1])
            results.append(tool_result(call.id, text, is_error=bad))
    return results


def _named(name: str, arguments: Mapping[str, Any]) -> bytes:
    return canonical([name, dict(arguments)])
