"""Events as the text that an `EventSource` reads (WHATWG HTML, "Server-sent events"). Pure."""

from typing import Final

import msgspec

from outlast.records.events import Event

HEARTBEAT: Final = b": still here\n\n"
"""A comment: no reader is told of it, but the connection is used."""
_encode: Final = msgspec.json.Encoder().encode


def event_frame(event: Event) -> bytes:
    """One event: its cursor as `id`, itself as JSON in `data`. Neither can hold an end of line."""
    return b"id: %b\ndata: %b\n\n" % (event.cursor.encode(), _encode(event))


def named_frame(name: str, value: object) -> bytes:
    """Something that is no event of a session: it has a name, and no `id` to go on from."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode(value))


def value_frame(value: object) -> bytes:
    """JSON without a name and without an `id`."""
    return b"data: %b\n\n" % _encode(value)


def retry_frame(after_ms: int) -> bytes:
    """How long an `EventSource` is to wait before it comes back."""
    return b"retry: %d\n\n" % after_ms
