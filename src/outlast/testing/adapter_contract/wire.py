"""What the promises must know of a model dialect: calls and results by id, and what a prompt is made of."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from outlast.gateway.anthropic import AnthropicMessages
from outlast.gateway.dialect import Dialect
from outlast.gateway.openai_chat import OpenAIChat
from outlast.gateway.openai_responses import OpenAIResponses

_SPOKEN: Final[Sequence[Dialect]] = (AnthropicMessages(), OpenAIResponses(), OpenAIChat())
DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in _SPOKEN}
_ITEMS: Final = {"anthropic": "messages", "openai-chat": "messages", "openai-responses": "input"}
_ASIDE: Final = frozenset(
    {"metadata", "client_metadata", "cache_control", "user", "stream", "stream_options"}
)
"""What says who asks and how the answer is to be sent, and is no part of the prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A model request, taken apart."""

    n: int
    """Its number."""
    frame: object
    """Everything but the conversation: system prompt, tools."""
    items: Sequence[Any]
    """The conversation."""


def understood(dialect: str, n: int, body: bytes) -> Prompt:
    """A request in the form in which two that mean the same are equal."""
    speaks = DIALECTS[dialect]
    meant = speaks.understand(speaks.read(body))
    return Prompt(n, meant.frame, meant.messages)


def prompt_of(dialect: str, n: int, body: bytes) -> Prompt:
    """A request as it was sent, without marks of the cache and what is no part of the prompt."""
    request = cast("dict[str, Any]", _plain(msgspec.json.decode(body)))
    items = request.pop(_ITEMS[dialect])
    return Prompt(n, request, cast("list[Any]", items) if isinstance(items, list) else [items])


def _plain(value: object) -> object:
    match value:
        case dict():
            named = cast("dict[str, object]", value)
            return {key: _plain(inner) for key, inner in named.items() if key not in _ASIDE}
        case list():
            return [_plain(inner) for inner in cast("list[object]", value)]
        case _:
            return value


def pairs(dialect: str, body: bytes) -> Iterator[str]:
    """Every call in a request that has not exactly one result."""
    items = msgspec.json.decode(body)[_ITEMS[dialect]]
    yield from unpaired(cast("list[dict[str, Any]]", items) if isinstance(items, list) else [])


def unpaired(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every call in a conversation, of whatever dialect, that has not exactly one result."""
    calls, results = Counter[str](), Counter[str]()
    for item in items:
        calls.update(_calls(item))
        results.update(_results(item))
    for call, count in (calls | results).items():
        if (calls[call], results[call]) != (1, 1):
            yield f"{calls[call]} calls and {results[call]} results of {call} ({count})"


def _calls(item: Mapping[str, Any]) -> Iterator[str]:
    kind = str(item.get("type", ""))
    if kind.endswith("_call") and "call_id" in item:
        yield str(item["call_id"])
    yield from (str(call["id"]) for call in item.get("tool_calls") or ())
    yield from (str(block["id"]) for block in _blocks(item) if block.get("type") == "tool_use")


def _results(item: Mapping[str, Any]) -> Iterator[str]:
    if str(item.get("type", "")).endswith(("_call_output", "tool_search_output")):
        yield str(item["call_id"])
    if item.get("role") == "tool":
        yield str(item["tool_call_id"])
    yield from (str(block["tool_use_id"]) for block in _blocks(item) if block.get("type") == "tool_result")


def _blocks(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = item.get("content")
    return (
        [block for block in cast("list[Any]", content) if isinstance(block, dict)]
        if isinstance(content, list)
        else []
    )
