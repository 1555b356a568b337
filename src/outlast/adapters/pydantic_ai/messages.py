"""pydantic-ai's messages as JSON that is the same in every attempt, and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_jsonable_python

from outlast.adapter import Talk, ToolAsk, ToolResult
from outlast.adapters.foreign import ForeignRequest
from outlast.prices import LIST_PRICES, OPENAI_PRICES, anthropic_usage, find_dated_price, find_price
from outlast.records import Usage
from outlast.tool import result_text

DROPPED: Final = frozenset({"timestamp", "run_id", "conversation_id"})
"""Members that are others in each attempt. No model reads them."""
FINAL: Final = "Final result processed."
"""What pydantic-ai says of a call of an output tool."""
_RESPONSE: Final[TypeAdapter[ModelResponse]] = TypeAdapter(ModelResponse)


def request_of(
    model: str,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> ForeignRequest:
    """A request as the log has it.

    Instructions stand in every request of pydantic-ai's, and only the last counts: they are kept beside the messages.
    """
    dumped: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    instructions = [message.pop("instructions", None) for message in dumped if message["kind"] == "request"]
    frame: dict[str, Any] = {
        "instructions": instructions[-1] if instructions else None,
        "settings": to_jsonable_python(dict(settings or {}), fallback=str),
        "tools": [_tool(tool) for tool in parameters.function_tools],
        "output_tools": [_tool(tool) for tool in parameters.output_tools],
        "native_tools": [tool.kind for tool in parameters.native_tools],
        "output_mode": parameters.output_mode,
        "allow_text_output": parameters.allow_text_output,
    }
    shape = parameters.output_object
    if shape is not None:
        frame["output_schema"] = shape.json_schema
    return ForeignRequest(model, [_lasting(message) for message in dumped], frame)


def _tool(tool: ToolDefinition) -> Mapping[str, Any]:
    return {"name": tool.name, "description": tool.description, "schema": tool.parameters_json_schema}


def _lasting(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without what is another in each attempt."""
    kept = {name: value for name, value in message.items() if name not in DROPPED}
    parts = cast("list[dict[str, Any]]", kept["parts"])
    kept["parts"] = [{key: value for key, value in part.items() if key not in DROPPED} for part in parts]
    return kept


def response_json(response: ModelResponse) -> dict[str, Any]:
    """An answer as the log has it."""
    return cast("dict[str, Any]", _RESPONSE.dump_python(response, mode="json"))


def read_response(value: Mapping[str, Any]) -> ModelResponse:
    """The answer that `response_json` wrote."""
    return _RESPONSE.validate_python(dict(value))


def with_own_ids(
    response: ModelResponse, parameters: ModelRequestParameters, own: Callable[[str], str]
) -> ModelResponse:
    """The answer with an id of its own for each call that the agent will run."""
    run_here = {ask.harness_id for ask in asks_of(response, parameters)}
    parts = [
        replace(part, tool_call_id=own(part.tool_call_id))
        if isinstance(part, ToolCallPart) and part.tool_call_id in run_here
        else part
        for part in response.parts
    ]
    return replace(response, parts=parts)


def asks_of(response: ModelResponse, parameters: ModelRequestParameters) -> Sequence[ToolAsk]:
    """The tool calls of an answer that the agent will run: no output tools, nothing that is done elsewhere."""
    elsewhere = {tool.name for tool in parameters.output_tools}
    elsewhere |= {tool.name for tool in parameters.function_tools if tool.kind == "external"}
    return [
        ToolAsk(part.tool_call_id, part.tool_name, arguments_of(part))
        for part in response.parts
        if isinstance(part, ToolCallPart) and part.tool_name not in elsewhere
    ]


def arguments_of(part: ToolCallPart) -> Mapping[str, Any]:
    """The arguments of a call as the model wrote them; where they are no JSON object, as text."""
    if isinstance(part.args, dict):
        return part.args
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return {"unreadable": part.args}


def usage_of(response: ModelResponse, model: str) -> Usage:
    """What an answer cost, at list price where that is known."""
    used, named = response.usage, response.model_name or model
    price = find_price(named, LIST_PRICES) or find_dated_price(named, OPENAI_PRICES)
    read, written = used.cache_read_tokens, used.cache_write_tokens
    said = {
        "input_tokens": max(0, used.input_tokens - read - written),
        "output_tokens": used.output_tokens,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    return anthropic_usage(said, price)


def history_of(talk: Talk) -> list[ModelMessage]:
    """The conversation as the turns before left it: every call in it has a result."""
    messages = ModelMessagesTypeAdapter.validate_python(list(talk.messages))
    answer = read_response(talk.answer)
    messages.append(answer)
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    if calls:
        messages.append(ModelRequest(parts=[_returned(call, talk) for call in calls]))
    return messages


def _returned(call: ToolCallPart, talk: Talk) -> ToolReturnPart:
    known = talk.by_id.get(call.tool_call_id, ToolResult("ok", FINAL))
    if known.status == "ok":
        return ToolReturnPart(call.tool_name, known.value, tool_call_id=call.tool_call_id)
    text = result_text(known.value)
    return ToolReturnPart(call.tool_name, text, tool_call_id=call.tool_call_id, outcome="failed")
