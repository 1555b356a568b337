"""Exec over a websocket: the streams of a program in a pod, as channels of one connection.

The protocol is `v5.channel.k8s.io` (KEP-4006, "Transition from SPDY to WebSockets"): the first byte of a binary message
is its channel (0 stdin, 1 stdout, 2 stderr, 3 the status at the end, as a JSON `Status`); `255` and a channel's number
closes that channel. `v4.channel.k8s.io` is the same without the close, and is what API servers before 1.29 speak.
"""

import importlib
import json
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
from anyio.abc import ByteStream

from outlast.errors import BoxError, BoxGone, ExtraMissing
from outlast.workspaces.kubernetes.access import INSTALL

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255
_PIECE: Final = 65536
_LARGEST: Final = 16 * 1024 * 1024
_SAID: Final = 2000
_OPEN_S: Final = 30.0
_PING_S: Final = 20.0


class Channels(ByteStream):
    """Stdin and stdout of a program in a pod. Made by `exec_stream`."""

    def __init__(self, connection: Any, closed: type[Exception], owned: AsyncExitStack) -> None:
        self._connection = connection
        self._gone = closed
        self._owned = owned
        self._ready = b""
        self._ended = False
        self._closed = False
        self._said = b""

    @property
    def said(self) -> str:
        """The end of what the program wrote to stderr, or how it ended if that was not well."""
        return self._said.decode("utf-8", "replace").strip()

    async def receive(self, max_bytes: int = _PIECE) -> bytes:
        while not self._ready:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._ended:
                raise anyio.EndOfStream
            self._take(await self._message())
        piece, self._ready = self._ready[:max_bytes], self._ready[max_bytes:]
        return piece

    async def _message(self) -> bytes:
        try:
            message = await self._connection.recv(decode=False)
        except self._gone as error:
            if self._connection.close_code in {1000, 1001}:
                raise anyio.EndOfStream from None
            raise anyio.BrokenResourceError from error
        return bytes(message)

    def _take(self, message: bytes) -> None:
        channel, payload = (message[0], message[1:]) if message else (_STDERR, b"")
        if channel == _STDOUT:
            self._ready = payload
        elif channel == _STDERR:
            self._said = (self._said + payload)[-_SAID:]
        elif channel == _STATUS:
            self._ended = True
            self._said = self._said or _failure(payload)

    async def send(self, item: bytes) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        try:
            for start in range(0, len(item), _PIECE):
                await self._connection.send(bytes([_STDIN]) + item[start : start + _PIECE])
        except self._gone as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """Close the program's stdin; nothing where the server speaks `v4`, which has no word for it."""
        if self._connection.subprotocol == PROTOCOLS[0]:
            await self._connection.send(bytes([_CLOSE, _STDIN]))

    async def aclose(self) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._owned.aclose()


def _failure(status: bytes) -> bytes:
    try:
        said = json.loads(status)
    except ValueError:
        return status
    return b"" if said.get("status") == "Success" else str(said.get("message", "")).encode()


async def exec_stream(
    url: str, headers: Mapping[str, str], context: ssl.SSLContext | None, *, server_name: str, pod: str
) -> Channels:
    """Start a program in a pod, as `url` says (`/exec?command=…`).

    Raises:
        BoxGone: there is no such pod, or it does not run.
        BoxError: it was refused.
        ExtraMissing
    """
    client, failures = _library()
    secure: dict[str, Any] = {"ssl": context} if context else {}
    if context and server_name:
        secure["server_hostname"] = server_name
    try:
        connection = await client.connect(
            url,
            additional_headers=dict(headers),
            subprotocols=list(PROTOCOLS),
            compression=None,
            max_size=_LARGEST,
            open_timeout=_OPEN_S,
            ping_interval=_PING_S,
            proxy=None,
            **secure,
        )
    except failures.InvalidStatus as error:
        raise _refusal(error.response.status_code, bytes(error.response.body or b""), pod) from error
    except (OSError, TimeoutError, failures.WebSocketException) as error:
        raise BoxError(box=pod, reason=f"the cluster did not answer ({error}).") from error
    async with AsyncExitStack() as owned:
        owned.push_async_callback(connection.close)
        return Channels(connection, failures.ConnectionClosed, owned.pop_all())
    raise AssertionError("the stack lets no exception go")


def _library() -> tuple[Any, Any]:
    try:
        return importlib.import_module("websockets.asyncio.client"), importlib.import_module(
            "websockets.exceptions"
        )
    except ImportError:
        raise ExtraMissing(what="A program in a pod", install=INSTALL) from None


def _refusal(status: int, body: bytes, pod: str) -> BoxError:
    try:
        said = str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        said = body.decode("utf-8", "replace")[:500]
    if status == 404:
        return BoxGone(box=pod, reason=said or "there is no such pod.")
    if status == 403:
        way = "Its role needs `create` on `pods/exec`."
        return BoxError(box=pod, reason=f"the cluster forbids to run programs in it ({said}). {way}")
    if "not running" in said or "completed pod" in said or "ContainerNotFound" in said:
        return BoxGone(box=pod, reason=said)
    return BoxError(box=pod, reason=f"the cluster answered {status}: {said}")
