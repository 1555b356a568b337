"""The port of a model dialect: how a harness and a provider put a request and its answer on the wire.

A dialect is pure. It says which paths are model calls, what a request means, when an answer is whole, and from which
frame on nothing may reach the harness before the answer is in the log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from outlast.adapter import ToolAsk, ToolResult
from outlast.gateway.sse import Frame
from outlast.records import Usage


class NotARequest(Exception):
    """A body that is no request of the dialect."""


Flow: TypeAlias = Literal["pass", "calm", "ours", "hold", "end", "error"]
"""What to do with a frame: let it through · let it through at any time, it says nothing · keep it, the harness has not
asked for it · hold it and all that follows until the answer is in the log · the same, and the answer is whole · let it
through, the answer has failed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a frame of an answer says."""

    flow: Flow
    kind: Literal["text", "thinking", ""] = ""
    text: str = ""
    """What watchers are shown, or of an error what it says."""


@dataclass(frozen=True, slots=True)
class Understood:
    """A request in canonical form: equal for what a killed harness asked and what it asks again when resumed."""

    model: str
    match: str
    frame: Mapping[str, Any]
    messages: Sequence[Any]
    results: Mapping[str, ToolResult]
    """The tool results since the last answer, by call id, as the harness words them."""
    newest: Sequence[str]
    """What the user said since the last answer."""
    earlier: Sequence[str]
    """What the user said before."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A request that tells of each tool call what the log does."""

    request: Mapping[str, Any]
    told: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """By call id: the results that stand there in place of the harness's."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """What must be read of calls by the log, and what of it a request said otherwise."""

    of: Callable[[str], ToolResult | None]
    told: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])


def placeless(text: bytes, places: Sequence[str]) -> bytes:
    """The JSON text of a request without the directories of this attempt, in an order that is always the same.

    Harnesses tell the model where they work. A fork works elsewhere, and asks the same all the same.
    """
    for number, place in sorted(enumerate(places), key=lambda one: -len(one[1])):
        if len(place) > 1:
            text = text.replace(msgspec.json.encode(place)[1:-1], b"<place %d>" % number)
    return text


class AnswerReader(Protocol):
    """Puts one answer together from the frames of its stream."""

    def read(self, frame: Frame) -> Heard:
        """Take the next frame.

        Raises:
            Malformed: it cannot stand there.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """What the provider has reported so far; None when it has not."""
        ...

    def over(self) -> bool:
        """Whether the answer is whole if the stream ends here, without a frame that says so."""
        ...

    def answer(self) -> Mapping[str, Any]:
        """The whole answer, once it has ended."""
        ...


class Dialect(Protocol):
    """How one provider's API speaks."""

    @property
    def name(self) -> str:
        """As in `outlast.adapter.Dialogue.dialect`."""
        ...

    def is_call(self, method: str, path: str) -> bool:
        """Whether this is a model call."""
        ...

    def may_pass(self, method: str, path: str) -> bool:
        """Whether this may go upstream without being a call: it makes no model answer, nor gives one that is there."""
        ...

    def read(self, body: bytes) -> dict[str, Any]:
        """Read a request.

        Raises:
            NotARequest
        """
        ...

    def streams(self, request: Mapping[str, Any]) -> bool:
        """Whether it wants an event stream."""
        ...

    def mend(self, request: Mapping[str, Any], result_of: Callable[[str], ToolResult | None]) -> Mended:
        """The request with the log's content in every tool result that the log knows; itself if nothing differs."""
        ...

    def understand(self, request: Mapping[str, Any], places: Sequence[str] = ()) -> Understood:
        """The canonical form of a request; its hash says nothing of `places` in what frames the conversation."""
        ...

    def counted(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request in such a form that its answer tells what it has used; itself where it does so already."""
        ...

    def reader(self, model: str, *, counted: bool = False) -> AnswerReader:
        """A reader of the answer to a request for `model`; `counted`: that of `counted` was sent instead."""
        ...

    def whole(self, body: bytes) -> Mapping[str, Any]:
        """The answer in a response that is no stream.

        Raises:
            Malformed: it is none, or not a whole one.
        """
        ...

    def asks(self, answer: Mapping[str, Any]) -> Sequence[ToolAsk]:
        """The tool calls that an answer asks the harness for."""
        ...

    def usage(self, answer: Mapping[str, Any], model: str) -> Usage | None: ...

    def frames(self, answer: Mapping[str, Any]) -> Sequence[bytes]:
        """A recorded answer as the frames of a stream."""
        ...

    def body(self, answer: Mapping[str, Any]) -> bytes:
        """A recorded answer as the body of a response that is no stream."""
        ...

    def calm(self) -> bytes:
        """A frame that says nothing."""
        ...

    def error(self, status: int, message: str) -> bytes:
        """The body of an error response."""
        ...

    @property
    def refusal_status(self) -> int:
        """The HTTP status at which harnesses that speak this stop at once."""
        ...

    def refusal(self, message: str) -> bytes:
        """The body of a response of that status, at which a harness stops at once."""
        ...
