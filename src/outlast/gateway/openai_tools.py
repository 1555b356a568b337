"""Tool calls as OpenAI's APIs put them: arguments as a text, which need not be JSON, since a model has written it."""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from outlast.adapter import ToolAsk
from outlast.tool import result_text

UNREAD: Final = "arguments"
"""Under this name stand arguments that are no JSON object, as the model wrote them."""
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
    if not isinstance(value, list):
        return result_text(value)
    blocks = cast("list[object]", value)
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    if texts and len(texts) == len(blocks) and all(isinstance(text, str) for text in texts):
        return "\n".join(cast("list[str]", texts))
    return result_text(blocks)
