"""Whom a client of TLS asks for, in a connection that is not looked into otherwise.

Many hosts stand behind one address, and who stands there goes by the name in the client's first words: with the leave
for one of them, another could be reached. So those words must name the host that was asked of us, if they name any.
"""

import ssl
from typing import Final

import anyio
from anyio.abc import ByteStream

from outlast.workspaces.egress.hosts import address_of, canonical

_HANDSHAKE: Final = b"\x16"
_OTHER_RECORDS: Final = frozenset({0x14, 0x15, 0x17, 0x18})
"""How records of TLS begin that no honest client begins with; no text does."""
_LONGEST: Final = 64 * 1024
_LOOKS: Final = 8
"""Records that the words may be spread over; honest ones take one or two."""
_HEAD: Final = 5


class SameHost(ByteStream):
    """What a client sends to `host`, which is cut off where it asks for another."""

    def __init__(self, inner: ByteStream, host: str) -> None:
        self._inner = inner
        self._host = host
        self._first = address_of(host) is None
        self.other = False
        """It has."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        if not self._first:
            return data
        self._first = False
        if data.startswith(_HANDSHAKE):
            return await self._checked(data)
        if data[0] in _OTHER_RECORDS:
            # Some servers pass over a warning that comes first, and then take whatever name follows.
            self.other = True
            raise anyio.BrokenResourceError
        return data

    async def _checked(self, data: bytes) -> bytes:
        looked = 0
        while len(data) < _LONGEST:
            whole = _records(data)
            if whole > looked:  # a look costs more than a byte does to send
                looked = whole
                name = name_in(data)
                if name is not None and (not name or _same(name, self._host)):
                    return data
                if name is not None or looked >= _LOOKS:
                    break
            data += await self._inner.receive()
        self.other = True
        raise anyio.BrokenResourceError

    async def send(self, item: bytes) -> None:
        await self._inner.send(item)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


def name_in(hello: bytes) -> str | None:
    """The name that the first words of a client ask for; empty: none, or no such words; None: more is to come."""
    names: list[str] = []

    def told(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int:
        names.append(name or "")
        return ssl.ALERT_DESCRIPTION_CLOSE_NOTIFY

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = told
    said, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    said.write(hello)
    try:
        context.wrap_bio(said, answer, server_side=True).do_handshake()
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError:
        pass
    return names[0] if names else ""


def _records(data: bytes) -> int:
    """How many records of TLS (RFC 8446, 5.1) are whole."""
    count, at = 0, 0
    while at + _HEAD <= len(data):
        at += _HEAD + int.from_bytes(data[at + 3 : at + _HEAD], "big")
        count += at <= len(data)
    return count


def _same(name: str, host: str) -> bool:
    try:
        return canonical(name) == host
    except ValueError:
        return False
