"""Tool calls as OpenAI's APIs put them: arguments as a text, which need not be JSON, since a model has written it."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from outlast.adapter import ToolAsk
from outlast.model import ImagePart, TextPart
from outlast.parts import find_parts
from outlast.tool import result_text

UNREAD: Final = "arguments"
"""Under this name stand arguments that are no JSON object, as the model wrote them."""
_UNSEEN: Final = "(an image, which cannot be shown here)"
INPUT: Final = "input"
"""Under this name stands the text that a tool of free input is given."""


def arguments_of(text: object) -> Mapping[str, Any]:
    """The arguments of a call; a text that is none is kept, for the harness to tell its model."""
    if not isinstance(text, str):
        return {} if text is None else {UNREAD: text}
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return {UNREAD: text}


def function_ask(harness_id: str, name: str, arguments: object) -> ToolAsk:
    """A call of a function."""
    return ToolAsk(harness_id, name, arguments_of(arguments))


def custom_ask(harness_id: str, name: str, text: object) -> ToolAsk:
    """A call of a tool that takes a text as the model wrote it."""
    return ToolAsk(harness_id, name, {INPUT: text})


def told(value: object) -> str:
    """A result of the log as these APIs give it to a model, which have no place for blocks of other dialects."""
    parts = find_parts(value)
    if parts is not None:
        return "\n".join(part.text if isinstance(part, TextPart) else _UNSEEN for part in parts)
    if not isinstance(value, list):
        return result_text(value)
    blocks = cast("list[object]", value)
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    if texts and len(texts) == len(blocks) and all(isinstance(text, str) for text in texts):
        return "\n".join(cast("list[str]", texts))
    return result_text(blocks)


def is_worded(value: object, kinds: frozenset[str]) -> bool:
    """Whether a result is a list of blocks of these types: as a request of this API has had it already."""
    blocks = cast("list[object]", value) if isinstance(value, list) else []
    types = [cast("dict[str, Any]", block).get("type") for block in blocks if isinstance(block, dict)]
    return bool(types) and len(types) == len(blocks) and kinds.issuperset(types)


def image_url(part: ImagePart) -> str:
    """An image of the log as an address that holds it."""
    return part.url or f"data:{part.media_type};base64,{b64encode(part.data).decode()}"
