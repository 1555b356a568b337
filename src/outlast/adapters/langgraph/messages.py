"""LangChain's messages as JSON, and back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, messages_from_dict

from outlast.adapter import ToolAsk
from outlast.codec import to_json
from outlast.prices import LIST_PRICES, OPENAI_PRICES, anthropic_usage, find_dated_price, find_price
from outlast.records import Usage

_BESIDE: Final = {"id", "response_metadata", "usage_metadata", "type"}
"""What says nothing to a model: ids are random, and what a call used is another each time."""


def asked_of(message: BaseMessage) -> dict[str, Any]:
    """A message as part of a request: the same for the same request in every attempt."""
    dumped = message.model_dump(mode="json", exclude_defaults=True, exclude=_BESIDE)
    return {"type": message.type, **_plain(dumped)}


def dumped(message: BaseMessage) -> dict[str, Any]:
    """A message, whole."""
    return {"type": message.type, "data": _plain(message.model_dump(mode="json"))}


def loaded(value: Mapping[str, Any]) -> BaseMessage:
    """What `dumped` wrote."""
    (message,) = messages_from_dict([dict(value)])
    return message


def asks_of(message: AIMessage, names: Sequence[str] | frozenset[str]) -> list[ToolAsk]:
    """The tool calls of an answer that will run durably."""
    return [
        ToolAsk(call["id"], call["name"], _plain(call["args"]))
        for call in message.tool_calls
        if call["id"] and call["name"] in names
    ]


def with_own_ids(
    message: AIMessage, names: Sequence[str] | frozenset[str], own: Callable[[str], str]
) -> AIMessage:
    """The answer with an id of its own for each call that will run durably, wherever it stands in it."""
    new = [(ask.harness_id, own(ask.harness_id)) for ask in asks_of(message, names)]
    if all(old == fresh for old, fresh in new):
        return message
    update: dict[str, Any] = {"tool_calls": _renamed(message.tool_calls, new)}
    if isinstance(message.content, list):
        update["content"] = _renamed(message.content, new)
    if "tool_calls" in message.additional_kwargs:
        raw = _renamed(message.additional_kwargs["tool_calls"], new)
        update["additional_kwargs"] = {**message.additional_kwargs, "tool_calls": raw}
    return message.model_copy(update=update)


def _renamed(parts: Sequence[Any], new: Sequence[tuple[str, str]]) -> list[Any]:
    """The parts with their new ids: of several with one id, the first has the first."""
    left = list(new)
    renamed: list[Any] = []
    for part in parts:
        known = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        found = next((one for one in left if one[0] == known.get("id")), None)
        if found is None:
            renamed.append(part)
        else:
            left.remove(found)
            renamed.append({**known, "id": found[1]})
    return renamed


def usage_of(message: AIMessage, model: str) -> Usage | None:
    """What an answer used, as LangChain counts it: cached tokens are part of the input."""
    said = message.usage_metadata
    if said is None:
        return None
    details = said.get("input_token_details") or {}
    read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
    price = find_price(model, LIST_PRICES) or find_dated_price(model, OPENAI_PRICES)
    counted = {
        "input_tokens": max(0, said["input_tokens"] - read - written),
        "output_tokens": said["output_tokens"],
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    return anthropic_usage(counted, price)


def _plain(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.json.decode(to_json(value, what="a message")))
