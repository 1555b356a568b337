"""One side of an exchange over HTTP/1.1: an `h11` connection on a stream of bytes."""

import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from select import POLLIN, poll
from typing import Final, TypeAlias

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute

from outlast.workspaces.unix import READ_BYTES

PIECE: Final = READ_BYTES
"""Bytes that are read at a time."""
LOST: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    h11.ProtocolError,
    OSError,  # `ssl.SSLError` among them
)
"""What a side that goes away, or does not speak HTTP, comes to."""
Header: TypeAlias = tuple[bytes, bytes]
Event: TypeAlias = h11.Event | type[h11.PAUSED] | type[h11.NEED_DATA]


class Pushed(ByteStream):
    """A stream of which some bytes were read already: they come first."""

    def __init__(self, first: bytes, inner: ByteStream) -> None:
        self._first = first
        self._inner = inner

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self._first:
            piece, self._first = self._first[:max_bytes], self._first[max_bytes:]
            return piece
        return await self._inner.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self._inner.send(item)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


class Side:
    """A client (`h11.SERVER`, since we serve it) or a host (`h11.CLIENT`)."""

    def __init__(
        self, stream: ByteStream, role: type[h11.CLIENT] | type[h11.SERVER], head_bytes: int
    ) -> None:
        self.stream = stream
        self.http = h11.Connection(role, max_incomplete_event_size=head_bytes)
        self._no_body = False
        self._unsent = b""

    async def next(self) -> Event:
        """What comes next.

        Raises:
            LOST: nothing will, or what comes is no HTTP.
        """
        while (event := self.ready()) is None:
            await self.more()
        return event

    def ready(self) -> Event | None:
        """What comes next, if it is here.

        Raises:
            LOST: nothing will, or what comes is no HTTP.
        """
        event = self.http.next_event()
        if isinstance(event, h11.Request):
            self._no_body = event.method == b"HEAD"
        return None if event is h11.NEED_DATA else event

    async def more(self) -> None:
        """Wait until something is here, or all is. Raises LOST: the side is gone."""
        self.http.receive_data(await self._piece())

    def put(self, event: h11.Event) -> None:
        """Send it with what is sent next. Raises LOST: it has no place here."""
        self._unsent += self.http.send(event) or b""

    async def flush(self) -> None:
        """Send what was put. Raises LOST: the side is gone."""
        if self._unsent:
            data, self._unsent = self._unsent, b""
            await self.stream.send(data)

    async def send(self, event: h11.Event) -> None:
        """Raises LOST: the side is gone."""
        self.put(event)
        await self.flush()

    async def whole(self, status: int, reason: str, text: str, headers: Iterable[Header] = ()) -> None:
        """Answer a client, and say that this was all."""
        body = text.encode() + b"\n"
        fixed = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        head = [*fixed, (b"connection", b"close"), *headers]
        self.put(h11.Response(status_code=status, headers=head, reason=reason.encode("ascii", "replace")))
        if not self._no_body:
            self.put(h11.Data(data=body))
        await self.send(h11.EndOfMessage())

    async def until_gone(self) -> None:
        """Wait until a client whose request is here whole has closed; what it sends before that is kept for later.

        It returns only when the client is gone: with the next request here, nothing more is read.
        """
        try:
            self.http.receive_data(await self.stream.receive(PIECE))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        await anyio.sleep_forever()

    async def begun(self) -> None:
        """Wait for the first byte of what comes next, or for the end."""
        if not self.http.trailing_data[0]:
            await self.more()

    async def read_out(self) -> None:
        """Read what a client still sends until it closes; to close before would take the answer from it."""
        if self._all_is_here():
            return
        with suppress(NotImplementedError):  # within TLS
            await self.stream.send_eof()
        while await self._piece():
            pass

    async def close(self) -> None:
        """At once, whatever was under way."""
        await anyio.aclose_forcefully(self.stream)

    def _all_is_here(self) -> bool:
        """Whether nothing of a request is on its way any more, as far as it was a request."""
        try:
            while isinstance(event := self.http.next_event(), h11.Data):
                pass
        except h11.RemoteProtocolError:
            return False
        return event is not h11.NEED_DATA

    async def _piece(self) -> bytes:
        try:
            return await self.stream.receive(PIECE)
        except anyio.EndOfStream:
            return b""


def stale(stream: ByteStream) -> bool:
    """Whether a host has something to say although it was asked nothing: a farewell, or an end."""
    connected: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
    waiting = poll()
    waiting.register(connected, POLLIN)
    return bool(waiting.poll(0))


def values(headers: Iterable[Header], name: bytes) -> Sequence[bytes]:
    """The members of all headers of a name, which is in lower case, that are lists."""
    found = (value for key, value in headers if key == name)
    return [each.strip().lower() for value in found for each in value.split(b",") if each.strip()]
