"""The OpenAI Responses dialect: "Responses" and "Streaming events" in OpenAI's API reference."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from outlast.testing.models.dialect import Answer, Billed, Message, ModelRequest
from outlast.testing.models.errors import UnreadableRequest
from outlast.testing.models.openai_chat import OpenAIChat
from outlast.testing.models.pieces import dicts, pieces, words
from outlast.testing.models.script import ToolUse

_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_SEARCH: Final = "tool_search"
_RESULT: Final = "_output"
# What says who asks, not what is asked.
_ASIDE: Final = frozenset(
    {"client_metadata", "metadata", "user", "safety_identifier", "prompt_cache_key", "stream_options"}
)
# How a client calls what came before, and how far it had come.
_LABELS: Final = frozenset({"id", "status", "internal_chat_message_metadata_passthrough"})


class _Body(msgspec.Struct, frozen=True):
    input: str | list[dict[str, Any]]
    model: str = "scripted"
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None


class OpenAIResponses:
    """`POST /v1/responses`, streaming and not, with thinking, text and calls of functions and of free-text tools.

    A step's tool whose only input is a text called `input` is called as a free-text tool where the request offers one
    of its name; one called `mcp__server__tool` in its namespace where the request offers that, or a search of the
    client's for tools, called `tool_search`, has found it.
    """

    name: str = "openai-responses"
    path: str = "/v1/responses"

    def parse(self, body: bytes) -> ModelRequest:
        """Read a request; messages of other roles than user and assistant are passed over."""
        try:
            tree: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
            known = msgspec.convert(tree, _Body)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UnreadableRequest(dialect=self.name, reason=error) from error
        items = [{"role": "user", "content": known.input}] if isinstance(known.input, str) else known.input
        canonical = {key: value for key, value in tree.items() if key not in _ASIDE}
        canonical["input"] = [{key: item[key] for key in item if key not in _LABELS} for item in items]
        return ModelRequest(
            model=known.model,
            stream=known.stream is True,
            messages=tuple(_messages(items)),
            canonical=canonical,
            offers=_offers([*(known.tools or []), *_found(items)]),
        )

    def frames(self, answer: Answer) -> list[bytes]:
        """Render `response.created`, the items in small deltas, and `response.completed` or `response.incomplete`."""
        ending = "incomplete" if answer.step.stop == "length" else "completed"
        ended = {"type": f"response.{ending}", "response": _response(answer)}
        return _numbered([*_events(answer), ended])

    def unended(self, answer: Answer) -> list[bytes]:
        """Leave out the last event."""
        return _numbered([*_events(answer)])

    def body(self, answer: Answer) -> bytes:
        """Render the response as one object."""
        return msgspec.json.encode(_response(answer))

    def error(self, status: int, error_type: str | None, message: str) -> bytes:
        """Render `{"error": {"message", "type", "param", "code"}}`; `error_type` is the code."""
        return OpenAIChat().error(status, error_type, message)

    def side_paths(self) -> Mapping[str, str]:
        """Name the token count."""
        return {"/v1/responses/input_tokens": "count_tokens"}

    def side_body(self, path: str, request: ModelRequest, input_tokens: int) -> bytes:
        """Answer a token count."""
        return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": input_tokens})


def _messages(items: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    answered = ""
    for item in items:
        kind = str(item.get("type", "message"))
        if kind.endswith("_call"):
            # Calls of one answer may come back with a result between them: they are one turn all the same.
            answer, _, _ = str(item.get("call_id", "")).rpartition("_")
            if answer and answer == answered:
                continue
            answered = answer
            yield Message("assistant", "")
        elif kind == "reasoning":
            yield Message("assistant", "")
        elif kind.endswith(_RESULT):
            yield Message("user", "")
        elif kind == "message":
            yield from _message(item)


def _message(item: Mapping[str, Any]) -> Iterator[Message]:
    content = item.get("content")
    blocks = [block.get("text") for block in dicts(content) if block.get("type") in _TEXTS]
    texts = [content] if isinstance(content, str) else [text for text in blocks if isinstance(text, str)]
    match item.get("role"):
        case "user":
            yield Message("user", "\n".join(texts))
        case "assistant":
            yield Message("assistant", "\n".join(texts))
        case _:
            pass


def _offers(tools: list[dict[str, Any]]) -> Mapping[str, str]:
    """How each tool that a request offers is called: name to `custom`, `tool_search`, or to its namespace."""
    offers: dict[str, str] = {}
    for tool in tools:
        if tool.get("type") == "custom":
            offers[str(tool.get("name"))] = "custom"
        elif tool.get("type") == _SEARCH:
            offers[_SEARCH] = _SEARCH
        elif tool.get("type") == "namespace":
            space = str(tool.get("name"))
            for inner in dicts(tool.get("tools")):
                joined = space if space.endswith("__") else f"{space}__"
                offers[f"{joined}{inner.get('name')}"] = space
    return offers


def _found(items: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What searches for tools have found."""
    for item in items:
        if item.get("type") == f"{_SEARCH}_output":
            yield from dicts(item.get("tools"))


def _items(answer: Answer) -> Iterator[dict[str, Any]]:
    step, name = answer.step, answer.id
    if step.thinking is not None:
        summary = [{"type": "summary_text", "text": step.thinking}]
        yield {"id": f"rs_{name}", "type": "reasoning", "summary": summary}
    if step.text is not None or step.stop == "refusal":
        refused = step.stop == "refusal"
        part: dict[str, Any] = {"type": "output_text", "text": step.text or "", "annotations": []}
        if refused:
            part = {"type": "refusal", "refusal": step.text or ""}
        message = {"id": f"msg_{name}", "type": "message", "role": "assistant", "status": "completed"}
        yield {**message, "content": [part]}
    for index, tool in enumerate(step.tools):
        yield _call(answer, index, tool)


def _call(answer: Answer, index: int, tool: ToolUse) -> dict[str, Any]:
    about = {"call_id": f"call_{answer.id}_{index}", "name": tool.name, "status": "completed"}
    offered = answer.offers.get(tool.name, "")
    if offered == "custom":
        text = str(tool.input.get("input", ""))
        return {"id": f"ctc_{answer.id}_{index}", "type": "custom_tool_call", **about, "input": text}
    if offered == _SEARCH:
        search = {"id": f"tsc_{answer.id}_{index}", "type": f"{_SEARCH}_call", "execution": "client"}
        return {**search, "call_id": about["call_id"], "status": "completed", "arguments": tool.input}
    if offered:
        inner = tool.name.removeprefix(offered).removeprefix("__")
        about |= {"name": inner, "namespace": offered}
    arguments = msgspec.json.encode(tool.input).decode()
    return {"id": f"fc_{answer.id}_{index}", "type": "function_call", **about, "arguments": arguments}


def _response(answer: Answer) -> dict[str, Any]:
    cut = answer.step.stop == "length"
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "model": answer.model,
        "output": list(_items(answer)),
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "usage": _usage(answer.billed),
    }


def _usage(billed: Billed) -> dict[str, Any]:
    given = billed.input_tokens + billed.cache_read_tokens + billed.cache_write_tokens
    details = {"cached_tokens": billed.cache_read_tokens, "cache_write_tokens": billed.cache_write_tokens}
    return {
        "input_tokens": given,
        "input_tokens_details": details,
        "output_tokens": billed.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + billed.output_tokens,
    }


def _events(answer: Answer) -> Iterator[dict[str, Any]]:
    begun: dict[str, Any] = {**_response(answer), "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": {**begun, "incomplete_details": None}}
    for index, item in enumerate(_items(answer)):
        empty, deltas = _pieces(item)
        if "status" in item:
            empty["status"] = "in_progress"
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        for event in deltas:
            yield {**event, "item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _pieces(item: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An item as it begins, and the events that complete it."""
    match item["type"]:
        case "message":
            return {**item, "content": []}, _said({"content_index": 0}, item["content"][0])
        case "reasoning":
            text: str = item["summary"][0]["text"]
            place = {"summary_index": 0}
            begins: dict[str, Any] = {"type": "response.reasoning_summary_part.added", **place}
            begins["part"] = {"type": "summary_text", "text": ""}
            done = {"type": "response.reasoning_summary_text.done", **place, "text": text}
            kind = "response.reasoning_summary_text.delta"
            return {**item, "summary": []}, [begins, *_deltas(kind, words(text), place), done]
        case "custom_tool_call":
            kind = "response.custom_tool_call_input.delta"
            return {**item, "input": ""}, _deltas(kind, pieces(item["input"]), {})
        case "tool_search_call":
            return {**item}, []
        case _:
            kind = "response.function_call_arguments.delta"
            return {**item, "arguments": ""}, _deltas(kind, pieces(item["arguments"]), {})


def _said(place: dict[str, int], part: dict[str, Any]) -> list[dict[str, Any]]:
    key, name = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    said: str = part[key]
    return [
        {"type": "response.content_part.added", **place, "part": {**part, key: ""}},
        *_deltas(f"response.{name}.delta", words(said), place),
        {"type": f"response.{name}.done", **place, key: said},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def _deltas(kind: str, texts: list[str], place: Mapping[str, int]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", {"type": kind, **place, "delta": text}) for text in texts]


def _numbered(events: list[dict[str, Any]]) -> list[bytes]:
    return [
        b"event: %b\ndata: %b\n\n"
        % (event["type"].encode(), msgspec.json.encode({**event, "sequence_number": number}))
        for number, event in enumerate(events)
    ]
