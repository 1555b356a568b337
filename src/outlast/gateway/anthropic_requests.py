"""Requests of the Messages dialect: which results the log knows better, and the form in which two are the same.

Format: "Messages" in Anthropic's API reference.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from outlast.adapter import ToolResult
from outlast.codec import canonical
from outlast.gateway.dialect import Corrections, Mended, NotARequest, Understood, placeless
from outlast.ids import digest
from outlast.model import ImagePart, TextPart
from outlast.parts import find_parts
from outlast.tool import result_text

Block = dict[str, Any]

_BILLING: Final = "x-anthropic-billing-header"
# What Claude Code says itself, and what a person says meanwhile, it folds into the result that comes last.
_ASIDE, _ASIDE_ENDS = "<system-reminder>\n", "</system-reminder>"
# What may differ between equal requests: who asks, where the cache is marked, how the answer is to be sent.
_NOT_COMPARED: Final = frozenset({"messages", "metadata", "cache_control", "stream", "system", "tools"})


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]]


class _Shape(msgspec.Struct):
    messages: list[_Message]
    model: str
    stream: bool = False
    system: str | list[dict[str, Any]] | None = None
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
    return request


def mend(request: Mapping[str, Any], result_of: Callable[[str], ToolResult | None]) -> Mended:
    """The request with the log's content in every tool result that the log knows; itself if nothing differs."""
    messages = cast("list[dict[str, Any]]", request["messages"])
    log = Corrections(result_of)
    mended = [_mend_message(message, log) for message in messages]
    if all(new is old for new, old in zip(mended, messages, strict=True)):
        return Mended(request)
    return Mended({**request, "messages": mended}, log.told)


def _mend_message(message: dict[str, Any], log: Corrections) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str) or message["role"] != "user":
        return message
    blocks = cast("list[Block]", content)
    mended = [_mend_block(block, log) for block in blocks]
    if all(new is old for new, old in zip(mended, blocks, strict=True)):
        return message
    return {**message, "content": mended}


def _mend_block(block: Block, log: Corrections) -> Block:
    if block.get("type") != "tool_result":
        return block
    call = str(block.get("tool_use_id", ""))
    known = log.of(call)
    if known is None:
        return block
    failed = known.status != "ok"
    content = _content_of(known.value)
    said, asides = _apart(_trimmed(block.get("content")))
    if _trimmed(content) == said and failed == bool(block.get("is_error")):
        return block
    log.told[call] = known
    mended = {key: value for key, value in block.items() if key != "is_error"}
    mended["content"] = _marked_like(block.get("content"), _with_asides(content, asides))
    return {**mended, "is_error": True} if failed else mended


def _apart(blocks: Sequence[Block]) -> tuple[list[Block], list[str]]:
    """The plain content of a result, and what the harness has folded into it."""
    kept: list[Block] = list(blocks)
    asides: list[str] = []
    while kept and kept[-1].get("type") == "text":
        text, at = str(kept[-1]["text"]), _aside_in(str(kept[-1]["text"]))
        if at is None:
            break
        asides.insert(0, text[at:].rstrip())
        rest = text[:at].strip()
        kept[-1:] = [{**kept[-1], "text": rest}] if rest else []
    return kept, asides


def _aside_in(text: str) -> int | None:
    """Where at the end of a result's text something folded in begins."""
    if not text.rstrip().endswith(_ASIDE_ENDS):
        return None
    at = text.rfind(_ASIDE)
    return at if at == 0 or text[max(0, at - 2) : max(0, at)] == "\n\n" else None


def _with_asides(content: str | list[Block], asides: Sequence[str]) -> str | list[Block]:
    if isinstance(content, str):
        return "\n\n".join([content, *asides])
    return [*content, *({"type": "text", "text": aside} for aside in asides)]


def _content_of(value: object) -> str | list[Block]:
    parts = find_parts(value)
    if parts is not None:
        return [_shown(part) for part in parts]
    blocks = _dicts(value)
    if (
        blocks
        and len(blocks) == len(cast("list[object]", value))
        and all("type" in block for block in blocks)
    ):
        return list(blocks)
    return result_text(value)


def _shown(part: TextPart | ImagePart) -> Block:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.url:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    data = b64encode(part.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}


def _marked_like(old: object, new: str | list[Block]) -> str | list[Block]:
    """`new`, with the mark of the provider's cache where `old` has one inside."""
    marks = [block["cache_control"] for block in _dicts(old) if "cache_control" in block]
    if not marks:
        return new
    blocks = [{"type": "text", "text": new}] if isinstance(new, str) else new
    return [*blocks[:-1], {**blocks[-1], "cache_control": marks[-1]}] if blocks else blocks


def understand(request: Mapping[str, Any], places: Sequence[str] = ()) -> Understood:
    """The canonical form of a request, and its hash; see `Dialect.understand`."""
    messages = _merged(cast("list[dict[str, Any]]", request["messages"]))
    frame = {key: value for key, value in request.items() if key not in _NOT_COMPARED}
    frame["system"] = [block for block in _plain(request.get("system")) if not _is_billing(block)]
    frame["tools"] = [_unmarked(tool) for tool in _dicts(request.get("tools"))]
    answered = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    newest = messages[answered + 1 :]
    return Understood(
        model=str(request["model"]),
        match=digest(b"anthropic", placeless(canonical(frame), places), canonical(messages)),
        frame=frame,
        messages=messages,
        results={
            str(block.get("tool_use_id", "")): ToolResult(
                "error" if block.get("is_error") else "ok", block.get("content", "")
            )
            for message in newest
            for block in message["content"]
            if block.get("type") == "tool_result"
        },
        newest=list(_said(newest)),
        earlier=list(_said(messages[: answered + 1])),
    )


def _merged(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = []
    for message in messages:
        blocks = _plain(message["content"])
        if not blocks:
            continue
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"].extend(blocks)
        else:
            merged.append({"role": message["role"], "content": blocks})
    for message in merged:
        if message["role"] == "user":
            message["content"] = _in_order(message["content"])
    return merged


def _in_order(blocks: list[Block]) -> list[Block]:
    # Parallel results come in the order in which the tools ended, which another run need not repeat.
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if not results:
        return blocks
    asides: list[str] = []
    for block in results:
        block["content"], folded = _apart(block["content"])
        asides += folded
    results.sort(key=lambda block: str(block.get("tool_use_id", "")))
    return [
        *results,
        *({"type": "text", "text": aside} for aside in asides),
        *(block for block in blocks if block.get("type") != "tool_result"),
    ]


def _said(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "user":
            for block in message["content"]:
                if block.get("type") == "text":
                    yield block["text"]


def _plain(content: object) -> list[Block]:
    """Text or blocks as blocks, without marks, empty text and line ends at the end of a text."""
    if isinstance(content, str):
        text = content.rstrip("\n")
        return [{"type": "text", "text": text}] if text else []
    return [plain for block in _dicts(content) if (plain := _plain_block(block)) is not None]


def _plain_block(block: Block) -> Block | None:
    plain = _unmarked(block)
    match plain.get("type"):
        case "text":
            text = str(plain.get("text", "")).rstrip("\n")
            return {**plain, "text": text} if text else None
        case "tool_result":
            plain["content"] = _trimmed(plain.get("content"))
            if not plain.get("is_error"):
                plain.pop("is_error", None)
            return plain
        case _:
            return plain


def _trimmed(content: object) -> list[Block]:
    """The content of a result, plain and without the space around its texts: it goes where something is folded in."""
    texts = [
        {**block, "text": block["text"].strip()} if "text" in block else block for block in _plain(content)
    ]
    return [block for block in texts if block.get("text") != ""]


def _unmarked(block: Block) -> Block:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _is_billing(block: Block) -> bool:
    return str(block.get("text", "")).startswith(_BILLING)


def _dicts(value: object) -> Sequence[Block]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Block", item) for item in listed if isinstance(item, dict)]
