"""Which step answers a request: read from the request alone, so that a resumed harness goes on rightly."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.testing.models.dialect import Message
from outlast.testing.models.errors import NoConversation
from outlast.testing.models.script import CONVERSATION_NAME, SCRIPT_OVER, Script, Step

DEFAULT_CONVERSATION = "default"
_MARKER = re.compile(rf"\[script:({CONVERSATION_NAME.pattern})\]")


@dataclass(frozen=True)
class Place:
    """A step of a conversation; an index past its end stands for `SCRIPT_OVER`."""

    conversation: str
    index: int
    step: Step


def locate(script: Script, messages: Sequence[Message]) -> Place:
    """Find the step that answers a conversation.

    The last user message with a marker `[script:NAME]` selects the conversation (its last marker, if
    several); without any marker it is `default`, from the start. The step's index is the number of
    assistant turns since. Neighbouring assistant messages are one turn: some clients send a message for
    each block.

    Raises:
        NoConversation: there is none of that name, or no marker and no `default`.
    """
    name, start = _selected(messages)
    if name is None and DEFAULT_CONVERSATION in script.conversations:
        name = DEFAULT_CONVERSATION
    if name is None or name not in script.conversations:
        raise _missing(script, name)
    index = _assistant_turns(messages[start:])
    steps = script.conversations[name]
    return Place(name, index, steps[index] if index < len(steps) else SCRIPT_OVER)


def _selected(messages: Sequence[Message]) -> tuple[str | None, int]:
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        markers: list[str] = _MARKER.findall(message.text) if message.role == "user" else []
        if markers:
            return markers[-1], position
    return None, 0


def _assistant_turns(messages: Sequence[Message]) -> int:
    roles = [message.role for message in messages]
    return sum(
        role == "assistant" and before != "assistant"
        for before, role in zip(["user", *roles], roles, strict=False)
    )


def _missing(script: Script, name: str | None) -> NoConversation:
    known = ", ".join(sorted(script.conversations)) or "nothing"
    if name is not None:
        return NoConversation(reason=f"The script has no conversation `{name}`.", known=known)
    advice = (
        f"put the marker [script:NAME] into the prompt, or call one conversation `{DEFAULT_CONVERSATION}`."
    )
    return NoConversation(reason=f"No conversation is selected: {advice}", known=known)
