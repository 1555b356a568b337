"""What a model said and thought in an answer, whichever dialect it came in."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from outlast.adapters.shapes import as_object, as_objects

Kind: TypeAlias = Literal["text", "thinking"]
Said: TypeAlias = list[tuple[Kind, str]]
_TEXTS: Final = frozenset({"text", "output_text", "refusal"})
_THOUGHTS: Final = ("reasoning_content", "reasoning")


def said_in(answer: object) -> Said:
    """What an answer says, in its order: a block each, without what is empty.

    Args:
        answer: as the log has it. Of a program it is what the provider answered (Anthropic's `content`, the `output`
            of OpenAI's Responses, the `choices` of its Chat Completions), of a loop its `message`, of a script its
            `text`.
    """
    given = as_object(answer)
    found: Said = _blocks(as_objects(given.get("content")))
    for item in as_objects(given.get("output")):
        found += _item(item)
    for choice in as_objects(given.get("choices"))[:1]:
        found += _message(as_object(choice.get("message")))
    found += _blocks(as_objects(as_object(given.get("message")).get("parts")))
    found += [_text(given.get("text"))]
    return [(kind, text) for kind, text in found if text.strip()]


def _text(text: object) -> tuple[Kind, str]:
    return "text", text if isinstance(text, str) else ""


def _thought(text: object) -> tuple[Kind, str]:
    return "thinking", text if isinstance(text, str) else ""


def _blocks(blocks: Sequence[Mapping[str, Any]]) -> Said:
    return [_block(block) for block in blocks]


def _block(block: Mapping[str, Any]) -> tuple[Kind, str]:
    """A block of Anthropic's or OpenAI's has a `type`, a part of a loop's message a `kind`."""
    kind = str(block.get("type") or block.get("kind"))
    if kind == "thinking":
        return _thought(block.get("thinking") or block.get("text"))
    return _text(block.get("text") or block.get("refusal") if kind in _TEXTS else "")


def _item(item: Mapping[str, Any]) -> Said:
    match item.get("type"):
        case "message":
            return _blocks(as_objects(item.get("content")))
        case "reasoning":
            return [_thought(part.get("text")) for part in as_objects(item.get("summary"))]
        case _:
            return []


def _message(message: Mapping[str, Any]) -> Said:
    thoughts = [_thought(message[key]) for key in _THOUGHTS if message.get(key)]
    return [*thoughts[:1], _text(message.get("content")), _text(message.get("refusal"))]
