"""A conversation within one model's context: how full that is, and where the older part may be cut off."""

from typing import Final

import msgspec

from outlast.adapters.history import tokens_of
from outlast.model import Answer, ImagePart, Message, Parts, ToolMessage, UserMessage

_BYTES: Final = 4
"""Bytes of JSON for each token, where nobody has counted: a little too many of most languages, so that the context is
held to be fuller than it is."""
_IMAGE: Final = 1_600
"""Tokens of an image, about the most that providers count."""
_KEPT: Final = 4
"""One part in so many stays word for word, the newest."""


class Conversation:
    """Messages, and how many tokens they are.

    Args:
        messages: the conversation so far.
        tokens: how many they are by the provider's own count; 0 when it did not say.
    """

    def __init__(self, messages: list[Message], tokens: int = 0) -> None:
        self.messages = messages
        self._counted = tokens
        self._counted_to = len(messages) if tokens else 0

    def add(self, message: Message) -> None:
        """Go on with `message`."""
        self.messages.append(message)

    def answered(self, answer: Answer) -> None:
        """Go on with what the model said to all messages so far."""
        self.messages.append(answer.message)
        counted = tokens_of(answer.usage)
        if counted:
            self._counted, self._counted_to = counted, len(self.messages)

    def is_beyond(self, tokens: float) -> bool:
        """Whether it is more than so many tokens; of 0, which stands for not known, it never is."""
        return tokens > 0 and self._counted + sum(map(_tokens, self.messages[self._counted_to :])) > tokens

    def cut(self) -> int:
        """How many messages, from the first, a summary should replace.

        What comes last stays: about a quarter, in any case what the user has just said.
        """
        sizes = list(map(_tokens, self.messages))
        left, at = sum(sizes) / _KEPT, len(sizes)
        while at and sizes[at - 1] <= left:
            at -= 1
            left -= sizes[at]
        newest = len(sizes)
        while newest and isinstance(self.messages[newest - 1], UserMessage):
            newest -= 1
        while at < newest and isinstance(self.messages[at], ToolMessage):
            at += 1  # results stay with the answer that asked for them
        return newest if at < 2 else min(at, newest)

    def boundary(self, at: int) -> int:
        """The last place up to `at` where the conversation may be cut."""
        while at and isinstance(self.messages[at], ToolMessage):
            at -= 1
        return at

    def sum_up(self, cut: int, summary: Message) -> None:
        """Put `summary` in place of the first `cut` messages."""
        self.messages = [summary, *self.messages[cut:]]
        self._counted = self._counted_to = 0


def _tokens(message: Message) -> int:
    images = 0
    if isinstance(message, UserMessage):
        message, images = UserMessage(_words(message.parts)), _images(message.parts)
    elif isinstance(message, ToolMessage):
        images = sum(_images(result.parts) for result in message.results)
        results = (msgspec.structs.replace(result, parts=_words(result.parts)) for result in message.results)
        message = ToolMessage(tuple(results)) if images else message
    return len(msgspec.json.encode(message)) // _BYTES + images * _IMAGE


def _words(parts: Parts) -> Parts:
    return tuple(part for part in parts if not isinstance(part, ImagePart))


def _images(parts: Parts) -> int:
    return sum(isinstance(part, ImagePart) for part in parts)
