"""How much of a session's events may stay, so that OpenCode goes on where the log is. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outlast.adapters.opencode.events import Message, Stored, is_ended, messages_of
from outlast.adapters.shapes import Json, as_object


@dataclass(frozen=True, slots=True)
class Asked:
    """A finished model call of the conversation, from the log."""

    call: int
    tools: Mapping[str, str]
    """How each tool call in its answer ended, by id; empty for one that has not."""

    def is_told_by(self, message: Message) -> bool:
        """Whether a message is this answer, and says of its calls what the log does.

        A call that OpenCode gave up as its attempt ended stands there as failed, whatever became of it.
        """
        said = {
            str(part.get("callID", "")): as_object(part.get("state")).get("status") for part in message.tools
        }
        return said.keys() == self.tools.keys() and all(
            ended and not (ended == "ok" and said[name] == "error") for name, ended in self.tools.items()
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of a session's events."""

    events: Sequence[Stored]
    messages: Sequence[Message]
    begun: bool = False
    """The prompt of the turn is among them."""
    answered: Sequence[int] = ()
    """Model calls of the turn whose answers are among them."""
    summaries: int = 0
    """How many summaries of the turn are among them."""
    dangling: Sequence[Json] = field(default_factory=list[Json])
    """Tool calls of an earlier turn without a result."""

    @property
    def asked(self) -> Message | None:
        """The last message of a person."""
        return next((one for one in reversed(self.messages) if not one.is_answer), None)

    @property
    def over(self) -> str | None:
        """The last text, if the conversation's last answer asks for nothing more; else None."""
        last = self.messages[-1] if self.begun and self.messages else None
        return last.text if last is not None and last.is_last and not last.is_summary else None


def kept(events: Sequence[Stored], prompt: str, asked: Sequence[Asked]) -> Kept:
    """What of the events of a conversation the next process may build on.

    Of the turn under way everything stays up to the first answer that is not whole, or that the log does not know: that
    one is asked for again and served from the log, the calls in it that have ended are answered from the log, and the
    others run as the plan has it. A turn that was cut short before this one stays but for an answer without calls.

    Args:
        prompt: id of the message that began the turn.
        asked: the turn's finished model calls of the conversation, in order.
    """
    while True:
        found = _once_cut(events, prompt, asked)
        if len(found.events) == len(events):
            return found
        # An earlier message may have been changed after a later one began: with that cut it is again what it was.
        events = found.events


def _once_cut(events: Sequence[Stored], prompt: str, asked: Sequence[Asked]) -> Kept:
    messages = messages_of(events)
    begins = next((at for at, one in enumerate(messages) if one.id == prompt), None)
    if begins is None:
        return _between_turns(events, messages)
    answered: list[int] = []
    summaries = 0
    for at, message in enumerate(messages[begins:], begins):
        if not message.is_answer:
            continue
        if not message.is_whole:
            return _up_to(events, messages, at, answered, summaries)
        if message.is_summary:
            summaries += 1
            continue
        known = asked[len(answered)] if len(answered) < len(asked) else None
        if known is None or not known.is_told_by(message):
            return _up_to(events, messages, at, answered, summaries)
        answered.append(known.call)
    return Kept(events, messages, begun=True, answered=answered, summaries=summaries)


def _up_to(
    events: Sequence[Stored], messages: Sequence[Message], at: int, answered: Sequence[int], summaries: int
) -> Kept:
    # A compaction is begun by a message of OpenCode's own, which it makes again.
    while at > 1 and _compacts(messages[at - 1]):
        at -= 1
    whole = events[: messages[at].first]
    return Kept(whole, messages_of(whole), begun=True, answered=answered, summaries=summaries)


def _compacts(message: Message) -> bool:
    return any(part.get("type") == "compaction" for part in message.parts.values())


def _between_turns(events: Sequence[Stored], messages: Sequence[Message]) -> Kept:
    """No turn is under way: nothing of the last one may be left open."""
    end = len(events)
    at = len(messages)
    while at and messages[at - 1].is_answer and not messages[at - 1].is_whole and not messages[at - 1].tools:
        at -= 1
        end = messages[at].first
    whole = events[:end]
    left = messages_of(whole)
    dangling = [part for message in left for part in message.tools if not is_ended(part)]
    return Kept(whole, left, dangling=dangling)
