"""Our connections to providers."""

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from http.cookiejar import DefaultCookiePolicy
from typing import Final
from urllib.request import getproxies

import anyio
import httpx

from outlast.gateway.limits import Limits
from outlast.gateway.target import Asked, Heard, Target
from outlast.trust import trusted

_NEAR: Final = ("127.0.0.1", "localhost", "[::1]")
# A provider may think for minutes without a word: its silence tells nothing, but its machine answers probes.
_PROBES: Final = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)


class Line:
    """Asks providers.

    Attributes:
        uncounted: addresses of providers that refuse to tell what an answer has used.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.uncounted: set[str] = set()

    @asynccontextmanager
    async def ask(self, target: Target, asked: Asked) -> AsyncGenerator[Heard]:
        """Send a request; the response's body is read inside the block.

        Raises:
            NotOffered: the provider has nothing for it.
            NoCredential
            httpx.HTTPError
        """
        sent = await target.translator.put(asked, target)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.headers]
        request = self._client.build_request(sent.method, sent.url, headers=headers, content=sent.body)
        response = await self._client.send(request, stream=True)
        try:
            yield target.translator.hear(response)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await response.aclose()


@asynccontextmanager
async def open_line(limits: Limits) -> AsyncGenerator[Line]:
    """Connections that are kept open between requests, without a limit on their number.

    One whose other end is gone without a word, as after a change of networks, breaks within some 30 s. Where a proxy of
    the environment stands between, that is the proxy's business.
    """
    timeout = httpx.Timeout(limits.silence_s, connect=limits.connect_s, pool=limits.connect_s)
    pool = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0)
    # A proxy of the environment leads out into the world; it does not know this machine's own servers.
    near = {f"all://{name}": httpx.AsyncHTTPTransport(trusted(), limits=pool) for name in _NEAR}
    direct = (
        None if getproxies() else httpx.AsyncHTTPTransport(trusted(), limits=pool, socket_options=_watched())
    )
    async with httpx.AsyncClient(
        verify=trusted(), timeout=timeout, limits=pool, mounts=near, transport=direct
    ) as client:
        # One client serves many sessions, and a cookie would tie them together.
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        yield Line(client)


def _watched() -> Sequence[tuple[int, int, int]]:
    """Options by which the kernel probes a connection on which nothing comes; as far as this system has them."""
    here = [(getattr(socket, name), value) for name, value in _PROBES if hasattr(socket, name)]
    return [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((socket.IPPROTO_TCP, one, value) for one, value in here),
    ]
