"""The port of a wire dialect: how one provider's API asks and answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from outlast.testing.models.script import Step


@dataclass(frozen=True)
class Message:
    """One message of a request: who speaks, and the words (for a user, without the results of tools)."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True)
class ModelRequest:
    """A request as the script sees it.

    Attributes:
        model: the model asked for.
        stream: whether it wants an event stream.
        messages: the conversation so far, oldest first.
        canonical: the body without what may differ between equal requests (metadata, cache marks).
        tells_usage: whether the answer is to say what it costs.
        offers: of the tools that are not called like others, how they are, by name; in the dialect's own words.
    """

    model: str
    stream: bool
    messages: tuple[Message, ...]
    canonical: object
    tells_usage: bool = True
    offers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Billed:
    """Tokens that an answer costs."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True)
class Answer:
    """A step made concrete for one request.

    Attributes:
        id: unique per request, fit for a part of any dialect's ids: `[A-Za-z0-9_-]+`.
        model: the model the request named.
        step: what to say.
        billed: the tokens to report.
        tells_usage: whether to report them.
        offers: as in `ModelRequest`.
    """

    id: str
    model: str
    step: Step
    billed: Billed
    tells_usage: bool = True
    offers: Mapping[str, str] = field(default_factory=dict[str, str])


class Dialect(Protocol):
    """How one provider's API puts a request and an answer on the wire.

    Implementations are pure: the same arguments give the same bytes.
    """

    @property
    def name(self) -> str:
        """What the records call it, e.g. `anthropic`."""
        ...

    @property
    def path(self) -> str:
        """The path that model requests are posted to."""
        ...

    def parse(self, body: bytes) -> ModelRequest:
        """Read a request.

        Raises:
            UnreadableRequest: the body is not one.
        """
        ...

    def frames(self, answer: Answer) -> list[bytes]:
        """Render an answer as the frames of an event stream, in order."""
        ...

    def unended(self, answer: Answer) -> list[bytes]:
        """Render those frames without the last ones, which say that the answer is whole."""
        ...

    def body(self, answer: Answer) -> bytes:
        """Render an answer as one JSON body."""
        ...

    def error(self, status: int, error_type: str | None, message: str) -> bytes:
        """Render an error; without `error_type`, the one usual for the status."""
        ...

    def side_paths(self) -> Mapping[str, str]:
        """Paths that a client may post to besides, such as a token count, and what the records call them."""
        ...

    def side_body(self, path: str, request: ModelRequest, input_tokens: int) -> bytes:
        """Answer a request to one of `side_paths`."""
        ...
