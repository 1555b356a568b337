"""Requests and answers of the OpenAI Agents SDK as JSON that is the same in every attempt, and back."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from agents import FunctionTool, Handoff, ModelResponse, ModelSettings, Usage
from agents.agent_output import AgentOutputSchemaBase
from agents.items import TResponseInputItem, TResponseOutputItem
from agents.tool import Tool as TheirTool
from openai.types.responses import Response, ResponseFunctionToolCall
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from outlast.adapter import Attachment, Talk
from outlast.adapters.foreign import ForeignRequest
from outlast.attaching import as_words, data_url
from outlast.prices import LIST_PRICES, OPENAI_PRICES, anthropic_usage, find_dated_price, find_price
from outlast.records import Usage as OurUsage
from outlast.tool import result_text

_OUTPUT: Final[TypeAdapter[list[TResponseOutputItem]]] = TypeAdapter(list[TResponseOutputItem])
_USAGE: Final = TypeAdapter(Usage)
HANDED_OVER: Final = "done"
"""What is said of a call that was no tool's, a handoff's for one, where a turn was cut behind it."""


def listed(asked: str | Sequence[TResponseInputItem]) -> list[Any]:
    """The input of a request as items."""
    return [{"role": "user", "content": asked}] if isinstance(asked, str) else list(asked)


def said(prompt: str, attachments: Sequence[Attachment]) -> list[Any]:
    """A prompt, with what came with it, as items."""
    if not attachments:
        return listed(prompt)
    words = {"type": "input_text", "text": prompt}
    return [{"role": "user", "content": [*map(_part, attachments), words]}]


def _part(attachment: Attachment) -> Mapping[str, str]:
    if attachment.media_type.startswith("text/"):
        return {"type": "input_text", "text": as_words(attachment)}
    url = data_url(attachment)
    if attachment.media_type.startswith("image/"):
        return {"type": "input_image", "detail": "auto", "image_url": url}
    return {"type": "input_file", "filename": attachment.name, "file_data": url}


def request_of(
    model: str, items: Sequence[Any], frame: Mapping[str, Any], tools: Sequence[TheirTool]
) -> ForeignRequest:
    """A request as the log has it."""
    described = [_described(tool) for tool in tools]
    plain = to_jsonable_python({**frame, "tools": described}, fallback=str, exclude_none=True)
    return ForeignRequest(model, to_jsonable_python(list(items), fallback=str), plain)


def frame_of(
    instructions: str | None,
    settings: ModelSettings,
    shape: AgentOutputSchemaBase | None,
    handoffs: Sequence[Handoff[Any, Any]],
) -> dict[str, Any]:
    """All of a request but its items and tools."""
    said = {name: value for name, value in settings.to_json_dict().items() if value is not None}
    return {
        "instructions": instructions,
        "settings": said,
        "output": None if shape is None or shape.is_plain_text() else shape.json_schema(),
        "handoffs": [[one.tool_name, one.tool_description, one.input_json_schema] for one in handoffs],
    }


def _described(tool: TheirTool) -> Mapping[str, Any]:
    if isinstance(tool, FunctionTool):
        return {"name": tool.name, "description": tool.description, "schema": tool.params_json_schema}
    return {"name": tool.name}


def response_json(response: ModelResponse) -> dict[str, Any]:
    """An answer as the log has it."""
    return {
        "output": [item.model_dump(mode="json", exclude_unset=True) for item in response.output],
        "usage": _USAGE.dump_python(response.usage, mode="json"),
        "response_id": response.response_id,
    }


def read_response(value: Mapping[str, Any]) -> ModelResponse:
    """The answer that `response_json` wrote."""
    usage = _USAGE.validate_python(value["usage"])
    return ModelResponse(_OUTPUT.validate_python(value["output"]), usage, value["response_id"])


def response_of(whole: Response) -> ModelResponse:
    """The answer at the end of a stream."""
    said = whole.usage
    usage = Usage(requests=1)
    if said is not None:
        usage = Usage(
            requests=1,
            input_tokens=said.input_tokens,
            output_tokens=said.output_tokens,
            total_tokens=said.total_tokens,
            input_tokens_details=said.input_tokens_details,
            output_tokens_details=said.output_tokens_details,
        )
    return ModelResponse(list(whole.output), usage, whole.id)


def streamed(response: ModelResponse, model: str) -> Response:
    """An answer as the end of a stream."""
    return Response.model_construct(
        id=response.response_id or "",
        created_at=0.0,
        model=model,
        object="response",
        output=response.output,
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
    )


def usage_of(response: ModelResponse, model: str) -> OurUsage:
    """What an answer cost, at list price where that is known."""
    price = find_dated_price(model, OPENAI_PRICES) or find_price(model, LIST_PRICES)
    read = response.usage.input_tokens_details.cached_tokens or 0
    said = {
        "input_tokens": max(0, response.usage.input_tokens - read),
        "output_tokens": response.usage.output_tokens,
        "cache_read_input_tokens": read,
    }
    return anthropic_usage(said, price)


def history_of(talk: Talk) -> list[TResponseInputItem]:
    """The conversation as the turns before left it: every call in it has an output."""
    answer = read_response(talk.answer)
    items = [*talk.messages, *answer.to_input_items()]
    for item in answer.output:
        if isinstance(item, ResponseFunctionToolCall):
            ended = talk.by_id.get(item.call_id)
            text = HANDED_OVER if ended is None else result_text(ended.value)
            items.append({"type": "function_call_output", "call_id": item.call_id, "output": text})
    return cast("list[TResponseInputItem]", items)
