"""Requests of the Responses dialect: which results the log knows better, and the form in which two are the same.

Format: "Create a model response" in OpenAI's API reference. The conversation is a list of items; a message without a
type is one too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from outlast.adapter import ToolResult
from outlast.codec import canonical
from outlast.gateway.dialect import Corrections, Mended, NotARequest, Understood, placeless
from outlast.gateway.openai_tools import image_url, is_worded, told
from outlast.ids import digest
from outlast.model import ImagePart
from outlast.parts import find_parts

Item = dict[str, Any]

_OUTPUT: Final = "_output"
# What may differ between equal requests: who asks, how the answer is to be sent, what the provider's cache goes by.
_NOT_COMPARED: Final = frozenset(
    {
        "background",
        "client_metadata",
        "input",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "stream",
        "stream_options",
        "user",
    }
)
# Of an item: what the provider or the harness calls it, and how far it had come.
_NOT_COMPARED_IN: Final = frozenset({"id", "status", "internal_chat_message_metadata_passthrough"})
_NOT_SAID: Final = frozenset(
    {"item_reference", "additional_tools", "mcp_approval_response", "compaction_trigger"}
)
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_BLOCKS: Final = frozenset({"input_text", "input_image", "input_file", "encrypted_content"})
"""What an output may be made of."""


class _Shape(msgspec.Struct):
    model: str
    input: str | list[dict[str, Any]] | None = None
    instructions: str | list[dict[str, Any]] | None = None
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None


def read_request(body: bytes) -> dict[str, Any]:
    """Read a request.

    Raises:
        NotARequest
    """
    try:
        request = msgspec.json.decode(body, type=dict[str, Any])
        msgspec.convert(request, _Shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotARequest(str(error)) from None
    if request.get("background") is True:
        reason = "an answer in the background (`background`) would come where nobody writes it down"
        raise NotARequest(reason)
    if request.get("conversation") is not None:
        reason = (
            "a conversation that the provider keeps (`conversation`) would hold twice what is asked again after a "
            "crash; send the items themselves, or `previous_response_id`"
        )
        raise NotARequest(reason)
    return request


def mend(request: Mapping[str, Any], result_of: Callable[[str], ToolResult | None]) -> Mended:
    """The request with the log's content in every tool result that the log knows; itself if nothing differs."""
    items = request.get("input")
    if not isinstance(items, list):
        return Mended(request)
    listed = cast("list[Item]", items)
    log = Corrections(result_of)
    mended = [_mend_item(item, log) for item in listed]
    if all(new is old for new, old in zip(mended, listed, strict=True)):
        return Mended(request)
    return Mended({**request, "input": mended}, log.told)


def _mend_item(item: Item, log: Corrections) -> Item:
    if (
        not _is_result(item) or "output" not in item
    ):  # a search for tools ends with tools, which stay as they are
        return item
    known = log.of(_call_id(item))
    if known is None:
        return item
    output = _worded(known.value)
    if _plain_output(item.get("output")) == _plain_output(output):
        return item
    log.told[_call_id(item)] = known
    return {**item, "output": output}


def _worded(value: object) -> object:
    """A result of the log as an output: its own blocks as they are, images as such, all else as a text."""
    if is_worded(value, _BLOCKS):
        return value
    parts = find_parts(value)
    if parts is None:
        return told(value)
    return [
        {"type": "input_image", "image_url": image_url(part)}
        if isinstance(part, ImagePart)
        else {"type": "input_text", "text": part.text}
        for part in parts
    ]


def understand(request: Mapping[str, Any], places: Sequence[str] = ()) -> Understood:
    """The canonical form of a request, and its hash; see `Dialect.understand`."""
    items = _in_order([_plain_item(item) for item in _items(request.get("input"))])
    frame = {key: value for key, value in request.items() if key not in _NOT_COMPARED}
    answered = max((at for at, item in enumerate(items) if _is_answer(item)), default=-1)
    newest = items[answered + 1 :]
    return Understood(
        model=str(request["model"]),
        match=digest(b"openai-responses", placeless(canonical(frame), places), canonical(items)),
        frame=frame,
        messages=items,
        results={
            _call_id(item): ToolResult("ok", item.get("output", "")) for item in newest if _is_result(item)
        },
        newest=list(_said(newest)),
        earlier=list(_said(items[: answered + 1])),
    )


def _items(given: object) -> Sequence[Item]:
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return cast("list[Item]", given) if isinstance(given, list) else []


def _plain_item(item: Item) -> Item:
    plain = {key: value for key, value in item.items() if key not in _NOT_COMPARED_IN and value is not None}
    if "type" not in plain and "role" in plain:
        plain["type"] = "message"
    if plain.get("type") == "item_reference":
        return item
    if plain.get("type") == "message":
        plain["content"] = _plain_content(plain.get("content"), str(plain.get("role", "")))
    elif _is_result(plain):
        plain["call_id"] = _call_id(item)
        plain["output"] = _plain_output(plain.get("output"))
    elif plain.get("type") == "reasoning" and not plain.get("content"):
        plain.pop("content", None)
    return plain


def _plain_content(content: object, role: str) -> list[Item]:
    """Text or parts as parts, without what a provider adds to its own, and without line ends at the end of a text."""
    if isinstance(content, str):
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    plain: list[Item] = []
    for part in _dicts(content):
        kept = {key: value for key, value in part.items() if key not in {"annotations", "logprobs"} or value}
        if kept.get("type") in _TEXTS:
            kept["text"] = str(kept.get("text", "")).rstrip("\n")
        plain.append(kept)
    return plain


def _plain_output(output: object) -> object:
    """The content of a result: a text by itself however it is given, else as it is."""
    parts = _dicts(output)
    if len(parts) == 1 and parts[0].get("type") in _TEXTS:
        output = parts[0].get("text", "")
    return output.strip() if isinstance(output, str) else output


def _in_order(items: Sequence[Item]) -> list[Item]:
    # Parallel results come in the order in which the tools ended, which another run need not repeat.
    ordered: list[Item] = []
    together: list[Item] = []
    for item in items:
        if _is_result(item):
            together.append(item)
            continue
        ordered += sorted(together, key=_call_id)
        together = []
        ordered.append(item)
    return ordered + sorted(together, key=_call_id)


def _is_result(item: Mapping[str, Any]) -> bool:
    return str(item.get("type", "")).endswith(_OUTPUT)


def _is_answer(item: Mapping[str, Any]) -> bool:
    """Whether a model has said this: an answer's items come back in the next request."""
    if item.get("type") == "message":
        return item.get("role") == "assistant"
    return not _is_result(item) and item.get("type") not in _NOT_SAID


def _call_id(item: Mapping[str, Any]) -> str:
    return str(item.get("call_id") or item.get("id") or "")


def _said(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "message" and item.get("role") == "user":
            for part in item["content"]:
                if part.get("type") in _TEXTS:
                    yield part["text"]


def _dicts(value: object) -> Sequence[Item]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Item", item) for item in listed if isinstance(item, dict)]
