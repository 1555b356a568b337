"""Connections to hosts: the name is resolved once, what it stands for is judged, and the connection goes there."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from outlast.workspaces.egress.hosts import Address, address_of, written
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.egress.policy import Grant, Refusal, permitted
from outlast.workspaces.egress.upstream import Upstream, Upstreams, through

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, for a port."""
_KNOWN_HERE_S: Final = 2.0
"""For a name that a proxy is asked for to be known here as well."""
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

    def __init__(
        self, limits: Limits, resolver: Resolve, trust: Callable[[], ssl.SSLContext], upstreams: Upstreams
    ) -> None:
        self._upstreams = upstreams
        self._limits = limits
        self._resolve = resolver
        self._trust = trust
        self._context: ssl.SSLContext | None = None

    async def dial(self, grant: Grant) -> ByteStream:
        """A connection to the host, encrypted where `grant` is for https.

        Raises:
            Refusal: it may not be, or cannot be.
        """
        upstream = self.upstream(grant)
        if upstream is None:
            stream = await self._connected(grant, permitted(grant, await self._addresses(grant)))
        else:
            stream = await self._through(upstream, grant)
        return stream if grant.scheme != "https" else await self._encrypted(grant.host, grant.port, stream)

    def upstream(self, grant: Grant) -> Upstream | None:
        """The proxy that the worker is behind, on the way to a host. Raises `Refusal`: none that is spoken here."""
        return self._upstreams.to(grant.scheme, grant.host, grant.port)

    async def _through(self, upstream: Upstream, grant: Grant) -> ByteStream:
        await self._judge(grant)
        try:
            with anyio.fail_after(self._limits.connect_s):
                stream: ByteStream = await anyio.connect_tcp(upstream.host, upstream.port)
        except (OSError, TimeoutError):
            at = written(upstream.host, upstream.port)
            raise Refusal(502, f"The worker's proxy, {at}, cannot be reached") from None
        if upstream.encrypted:
            stream = await self._encrypted(upstream.host, upstream.port, stream)
        if grant.scheme == "http":
            return stream  # it is asked for the whole address
        try:
            with anyio.fail_after(self._limits.head_s):
                return await through(stream, upstream, grant.host, grant.port, self._limits.head_bytes)
        except TimeoutError:
            await anyio.aclose_forcefully(stream)
            raise Refusal(502, "The worker's proxy does not answer") from None
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise

    async def _judge(self, grant: Grant) -> None:
        """Refuse what leads where it must not, as far as that is known here: often the proxy alone knows names."""
        known = address_of(grant.host)
        found = [] if known is None else [known]
        if known is None:
            with anyio.move_on_after(_KNOWN_HERE_S), suppress(OSError, ValueError):
                found = [ip_address(each) for each in await self._resolve(grant.host, grant.port)]
        if found:
            permitted(grant, found)

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

    async def _encrypted(self, host: str, port: int, stream: ByteStream) -> ByteStream:
        if self._context is None:
            self._context = await to_thread.run_sync(self._trust)
        try:
            with anyio.fail_after(self._limits.connect_s):
                return await TLSStream.wrap(
                    stream, hostname=host, ssl_context=self._context, standard_compatible=False
                )
        except (OSError, TimeoutError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            await anyio.aclose_forcefully(stream)
            why = getattr(error, "verify_message", "") or "the handshake of TLS failed"
            raise Refusal(502, f"{written(host, port)} cannot be trusted: {why}") from None
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
