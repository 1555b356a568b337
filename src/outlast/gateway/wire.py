"""One exchange over HTTP with a harness.

What ASGI lacks is here: dropping the connection, and seeing at once that it is gone.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from outlast.serving import TRANSPORT, hang_up, until_gone
from outlast.squeezing import zstd

JSON: Final = (("content-type", "application/json"),)
LAST: Final = (("connection", "close"), *JSON)
"""Of an answer behind which the connection is closed."""
_WINDOW: Final = {int(zstd.DecompressionParameter.window_log_max): 23}
"""What a body may make us keep of itself while it is unpacked: 8 MB, which every sender stays below (RFC 9659)."""
_TAKEN_AT_MOST: Final = 1024 * 1024 * 1024
STREAM: Final = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))

Header = tuple[str, str]


class ClientGone(Exception):
    """The harness has closed its connection, or takes nothing any more."""


class BodyRefused(Exception):
    """A body that is not taken; the text says why."""

    status = 400
    """How HTTP puts it."""


class BodyTooLarge(BodyRefused):
    """A body over the limit."""

    status = 413

    def __init__(self, limit: int, *, came: bool = False) -> None:
        super().__init__(f"The request is larger than {limit:,} bytes.")
        self.came = came
        """Nothing more of it will come."""


class Packed(BodyRefused):
    """A body that is compressed in a way that is not unpacked here."""

    status = 415

    def __init__(self, coding: str) -> None:
        super().__init__(
            f"A body compressed as {coding[:40]!r} is not read here: send it as it is, or as gzip or zstd."
        )


class Http:
    """A request, and the answer to it as it goes out."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, send_s: float) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.pairs: list[Header] = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ]
        self.headers: Mapping[str, str] = dict(self.pairs)
        self.started = False
        self._scope = scope
        self._receive = receive
        self._send = send
        self._send_s = send_s
        state: dict[str, Any] = scope.get("state", {})
        self._transport: asyncio.Transport | None = state.get(TRANSPORT)

    @property
    def target(self) -> str:
        """Path and query as they stood in the request line."""
        raw: bytes = self._scope.get("raw_path") or self.path.encode()
        query: bytes = self._scope["query_string"]
        return (raw + b"?" + query if query else raw).decode("latin-1")

    @property
    def api_key(self) -> str:
        return self.headers.get("x-api-key", "").strip()

    @property
    def bearer(self) -> str:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def wants_socket(self) -> bool:
        """Whether it is the beginning of a WebSocket."""
        return self.headers.get("upgrade", "").strip().lower() == "websocket"

    @property
    def connection(self) -> asyncio.Transport | None:
        return self._transport

    @property
    def gone(self) -> bool:
        return self._transport is not None and self._transport.is_closing()

    def asgi(self) -> tuple[Scope, Receive, Send]:
        """For an ASGI application that answers instead."""
        return self._scope, self._receive, self._send

    async def body(self, limit: int, within_s: float) -> bytes:
        """Read the body.

        Raises:
            BodyTooLarge: it is over `limit` bytes, also when unpacked.
            Packed: it is compressed, and neither as gzip nor as zstd.
            ClientGone: it did not come whole within `within_s`.
        """
        if int(self.headers.get("content-length") or 0) > limit:
            raise BodyTooLarge(limit)
        body = bytearray()
        with anyio.move_on_after(within_s):
            await self._pieces(limit, body.extend)
            return _unpacked(bytes(body), self.headers.get("content-encoding", ""), limit)
        await self.drop()
        raise ClientGone

    async def discard(self, limit: int, within_s: float) -> None:
        """Let the body come to its end, or to `limit` bytes, without keeping it.

        A client that still sends would be reset by the end of the connection, and lose the answer.
        """
        with suppress(BodyTooLarge, ClientGone), anyio.move_on_after(within_s):
            if int(self.headers.get("content-length") or 0) <= limit:
                await self._pieces(limit, lambda _: None)

    async def asked(self, limit: int, within_s: float) -> bytes:
        """The body of a request of somebody who is let in: of one that is too large he hears when he has sent it.

        Raises:
            BodyRefused, ClientGone: as `body` does.
        """
        try:
            return await self.body(limit, within_s)
        except BodyTooLarge as large:
            if (
                not large.came and "expect" not in self.headers
            ):  # else he asks first, and is told before he sends it
                await self.discard(_TAKEN_AT_MOST, within_s)
            raise

    async def until_gone(self) -> None:
        """Wait until the connection is closed; only after `body`."""
        await until_gone(self._receive)

    async def start(self, status: int, headers: Iterable[Header]) -> None:
        self.started = True
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._put({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes) -> None:
        await self._put({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        await self._put({"type": "http.response.body", "body": data, "more_body": False})

    async def whole(self, status: int, body: bytes, headers: Iterable[Header] = JSON) -> None:
        """Answer at once."""
        await self.start(status, [*headers, ("content-length", str(len(body)))])
        await self.finish(body)

    async def whole_json(self, status: int, value: object, headers: Iterable[Header] = JSON) -> None:
        await self.whole(status, msgspec.json.encode(value), headers)

    async def drop(self) -> None:
        """Close the connection in the middle, behind what was sent and without its end."""
        if self._transport is not None:
            await hang_up(self._transport, self._receive)

    async def _pieces(self, limit: int, take: Callable[[bytes], None]) -> None:
        size, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            piece: bytes = message.get("body", b"")
            size += len(piece)
            more = message.get("more_body", False)
            if size > limit:
                raise BodyTooLarge(limit, came=not more)
            take(piece)

    async def _put(self, message: dict[str, Any]) -> None:
        if self.gone:
            raise ClientGone
        if self._transport is not None and not self._transport.get_write_buffer_size():
            await self._send(message)  # nothing waits to be taken, so this does not wait either
            return
        with anyio.move_on_after(self._send_s) as waiting:
            await self._send(message)
        if waiting.cancelled_caught:
            if self._transport is not None:
                self._transport.abort()  # a close would wait for what the client does not take
            raise ClientGone


def _unpacked(body: bytes, coding: str, limit: int) -> bytes:
    """A body as its sender meant it (RFC 9110, section 8.4.1; RFC 9659); no more than `limit` is ever unpacked."""
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return body
    if coding not in {"gzip", "x-gzip", "zstd"}:
        raise Packed(coding)
    try:
        if coding == "zstd":
            unpacker = zstd.ZstdDecompressor(options=_WINDOW)
        else:
            unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        plain = unpacker.decompress(body, limit + 1)
    except (zlib.error, zstd.ZstdError):
        raise Packed(coding) from None
    if len(plain) > limit:
        raise BodyTooLarge(limit, came=True)
    if not unpacker.eof or unpacker.unused_data:
        raise Packed(coding)
    return plain
