"""Connections to hosts: the name is resolved once, what it stands for is judged, and the connection goes there."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Final, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from outlast.workspaces.egress.hosts import Address, address_of, written
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.egress.policy import Grant, Refusal, permitted

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, for a port."""
_TRIED: Final = 4
"""Addresses of one host."""


class SystemResolver:
    """As this machine does it, a few names at a time: whoever asks for names without end holds up nobody else."""

    def __init__(self, at_once: int = 4) -> None:
        self._limiter = CapacityLimiter(at_once)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host`.

        Raises:
            OSError: the name is not known, or nobody can be asked.
        """
        found = await to_thread.run_sync(_resolved, host, port, limiter=self._limiter, abandon_on_cancel=True)
        return list(dict.fromkeys(found))


def _resolved(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]).partition("%")[0] for each in found]


class Dialer:
    """Connects to what was granted."""

    def __init__(self, limits: Limits, resolver: Resolve, trust: Callable[[], ssl.SSLContext]) -> None:
        self._limits = limits
        self._resolve = resolver
        self._trust = trust
        self._context: ssl.SSLContext | None = None

    async def dial(self, grant: Grant) -> ByteStream:
        """A connection to the host, encrypted where `grant` is for https.

        Raises:
            Refusal: it may not be, or cannot be.
        """
        stream = await self._connected(grant, permitted(grant, await self._addresses(grant)))
        return stream if grant.scheme != "https" else await self._encrypted(grant, stream)

    async def _addresses(self, grant: Grant) -> list[Address]:
        known = address_of(grant.host)
        if known is not None:
            return [known]
        try:
            with anyio.fail_after(self._limits.resolve_s):
                return [ip_address(each) for each in await self._resolve(grant.host, grant.port)]
        except (OSError, TimeoutError, ValueError):
            raise Refusal(502, f"The name {grant.host} is not known where the sandbox's owner is") from None

    async def _connected(self, grant: Grant, addresses: Sequence[Address]) -> ByteStream:
        why = ""
        for address in addresses[:_TRIED]:
            try:
                with anyio.fail_after(self._limits.connect_s):
                    return await anyio.connect_tcp(str(address), grant.port)
            except TimeoutError:
                why = f"no answer within {self._limits.connect_s:g} s"
            except OSError as error:
                why = error.strerror or "no connection"
        raise Refusal(502, f"{written(grant.host, grant.port)} cannot be reached: {why}")

    async def _encrypted(self, grant: Grant, stream: ByteStream) -> ByteStream:
        if self._context is None:
            self._context = await to_thread.run_sync(self._trust)
        try:
            with anyio.fail_after(self._limits.connect_s):
                return await TLSStream.wrap(
                    stream, hostname=grant.host, ssl_context=self._context, standard_compatible=False
                )
        except (OSError, TimeoutError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            await anyio.aclose_forcefully(stream)
            why = getattr(error, "verify_message", "") or "the handshake of TLS failed"
            raise Refusal(502, f"{written(grant.host, grant.port)} cannot be trusted: {why}") from None
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
