"""JSON inside a record, and what a call used."""

from typing import Any

import msgspec

_NULL = msgspec.Raw(b"null")


class Payload(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A JSON value: inline, or by the hash of a blob that the commit names."""

    json: msgspec.Raw = _NULL
    ref: str = ""
    size: int = 0
    """Bytes of the JSON text behind `ref`."""

    def value(self) -> Any:
        """The decoded value of an inline payload.

        Raises:
            ValueError: it stands behind a blob, which must be fetched first.
        """
        if self.ref:
            raise ValueError(f"the value stands behind the blob {self.ref}: fetch it first")
        return msgspec.json.decode(self.json)

    def __hash__(self) -> int:
        return hash((bytes(self.json), self.ref))


EMPTY = Payload()


class Attached(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that came with a prompt. Its bytes are a blob that whatever holds the prompt names."""

    name: str
    media_type: str
    size: int
    ref: str


class Touched(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a call may have changed in a workspace whose files are not written down with each call."""

    about: str = ""
    """The argument that tells the call from others of its name, at a length for one line."""
    paths: tuple[str, ...] = ()
    """As the call named them; the first 20."""
    more: bool = False
    """It may have changed others: nobody knows what a command does."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a provider reported for one model call, and what it costs in US dollars at list price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cost_usd + other.cost_usd,
        )
