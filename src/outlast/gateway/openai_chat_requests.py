"""Requests of the Chat Completions dialect: which results the log knows better, and the form in which two are the same.

Format: "Create chat completion" in OpenAI's API reference.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from outlast.adapter import ToolResult
from outlast.codec import canonical
from outlast.gateway.dialect import Corrections, Mended, NotARequest, Understood, placeless
from outlast.gateway.openai_tools import is_worded, told
from outlast.ids import digest

Message = dict[str, Any]

# What may differ between equal requests: who asks, and what the provider's cache goes by.
_NOT_COMPARED: Final = frozenset(
    {"messages", "metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user"}
)

_TEXT: Final = frozenset({"text"})
_BLOCKS: Final = _TEXT | {"image_url"}
"""What a result may be made of; many servers take a text only."""


class _Shape(msgspec.Struct):
    messages: list[dict[str, Any]]
    model: str
    stream: bool | None = None
    n: int | None = None
    tools: list[dict[str, Any]] | None = None
    functions: list[dict[str, Any]] | None = None


def read_request(body: bytes) -> dict[str, Any]:
    """Read a request.

    Raises:
        NotARequest
    """
    try:
        request = msgspec.json.decode(body, type=dict[str, Any])
        known = msgspec.convert(request, _Shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotARequest(str(error)) from None
    if known.functions:
        reason = "calls of `functions` have no id by which they could be told apart; offer them as `tools`"
        raise NotARequest(reason)
    if known.tools and (known.n or 1) > 1:
        reason = "of several answers (`n`) nobody says which one is gone by, and each may ask for tools"
        raise NotARequest(reason)
    return request


def mend(request: Mapping[str, Any], result_of: Callable[[str], ToolResult | None]) -> Mended:
    """The request with the log's content in every tool result that the log knows; itself if nothing differs."""
    messages = cast("list[Message]", request["messages"])
    log = Corrections(result_of)
    mended = [_mend_message(message, log) for message in messages]
    if all(new is old for new, old in zip(mended, messages, strict=True)):
        return Mended(request)
    return Mended({**request, "messages": mended}, log.told)


def _mend_message(message: Message, log: Corrections) -> Message:
    if message.get("role") != "tool":
        return message
    known = log.of(_call_id(message))
    if known is None:
        return message
    said, worded = _trimmed(message.get("content")), is_worded(known.value, _BLOCKS)
    if worded and _trimmed(known.value) == said:
        return message
    only_texts = is_worded(known.value, _TEXT)
    content = known.value if worded and not only_texts else told(known.value)
    if _trimmed(content) == said:
        return message
    log.told[_call_id(message)] = known
    return {**message, "content": content}


def understand(request: Mapping[str, Any], places: Sequence[str] = ()) -> Understood:
    """The canonical form of a request, and its hash; see `Dialect.understand`."""
    messages = _in_order([_plain(message) for message in cast("list[Message]", request["messages"])])
    frame = {key: value for key, value in request.items() if key not in _NOT_COMPARED}
    answered = max((at for at, it in enumerate(messages) if it.get("role") == "assistant"), default=-1)
    newest = messages[answered + 1 :]
    return Understood(
        model=str(request["model"]),
        match=digest(b"openai-chat", canonical(frame), placeless(canonical(messages), places)),
        frame=frame,
        messages=messages,
        results={
            _call_id(message): ToolResult("ok", _result(message["content"]))
            for message in newest
            if message.get("role") == "tool"
        },
        newest=list(_said(newest)),
        earlier=list(_said(messages[: answered + 1])),
    )


def counted(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request with the wish that a stream tells what it has used; itself if that is there, or it is no stream."""
    given: object = request.get("stream_options")
    options = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if request.get("stream") is not True or options.get("include_usage"):
        return request
    return {**request, "stream_options": {**options, "include_usage": True}}


def _plain(message: Message) -> Message:
    """A message with its content in parts, without marks of a cache and what is not there."""
    plain = {key: value for key, value in message.items() if value is not None and value != []}
    if plain.get("role") == "tool":
        plain["content"] = _trimmed(plain.get("content"))
    else:
        plain["content"] = _parts(plain.get("content"))
    return plain


def _parts(content: object) -> list[Message]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    parts = [{key: part[key] for key in part if key != "cache_control"} for part in _dicts(content)]
    texts = [{**part, "text": str(part["text"]).rstrip("\n")} if "text" in part else part for part in parts]
    return [part for part in texts if part.get("text") != ""]


def _trimmed(content: object) -> list[Message]:
    """The content of a result, without the space around its texts."""
    texts = [{**part, "text": part["text"].strip()} if "text" in part else part for part in _parts(content)]
    return [part for part in texts if part.get("text") != ""]


def _result(parts: Sequence[Message]) -> object:
    """A result for the log: a text by itself."""
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else list(parts)


def _in_order(messages: Sequence[Message]) -> list[Message]:
    # Parallel results come in the order in which the tools ended, which another run need not repeat.
    ordered: list[Message] = []
    together: list[Message] = []
    for message in messages:
        if message.get("role") == "tool":
            together.append(message)
            continue
        ordered += sorted(together, key=_call_id)
        together = []
        ordered.append(message)
    return ordered + sorted(together, key=_call_id)


def _call_id(message: Mapping[str, Any]) -> str:
    return str(message.get("tool_call_id") or "")


def _said(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for message in messages:
        if message.get("role") == "user":
            for part in message["content"]:
                if part.get("type") == "text":
                    yield part["text"]


def _dicts(value: object) -> Sequence[Message]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Message", item) for item in listed if isinstance(item, dict)]
