"""The proxy that the worker itself is behind: which connections go through it, and how one does.

`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say so, in small letters before capitals, as to other programs.
Through such a proxy a host is asked for by its name: many let nothing else through, and often nobody but they know the
name. So it is they who say where one leads.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final
from urllib.parse import unquote, urlsplit

import h11
from anyio.abc import ByteStream

from outlast.workspaces.egress.hosts import address_of, written
from outlast.workspaces.egress.policy import Refusal
from outlast.workspaces.egress.wire import LOST, Header, Pushed, Side

_VARIABLES: Final = {"http": ("http_proxy", "all_proxy"), "https": ("https_proxy", "all_proxy")}
_PORTS: Final = {"http": 80, "https": 443}
_BETWEEN: Final = re.compile(r"[,\s]+")
_ASKS_WHO: Final = 407


@dataclass(frozen=True, slots=True)
class Upstream:
    """A proxy."""

    encrypted: bool
    host: str
    port: int
    headers: tuple[Header, ...] = field(default=(), repr=False)
    """By which it knows the worker: no part of any message."""


class Upstreams:
    """The proxies of a worker whose environment is `environ`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def to(self, scheme: str, host: str, port: int) -> Upstream | None:
        """The proxy that leads to a canonical host; None: none does.

        Args:
            scheme: `http`; everything else is carried as `https` is.
            host: a name or an address.
            port: of it.

        Raises:
            Refusal: what the environment says is no proxy that is spoken here.
        """
        said = self._said(*_VARIABLES["http" if scheme == "http" else "https"])
        return None if not said or self._is_direct(host, port) else _read(said)

    def _said(self, *names: str) -> str:
        found = (self._environ.get(each, "").strip() for name in names for each in (name, name.upper()))
        return next(filter(None, found), "")

    def _is_direct(self, host: str, port: int) -> bool:
        address = address_of(host)
        if host == "localhost" or (address is not None and address.is_loopback):
            return True
        return any(_fits(each, host, port) for each in _BETWEEN.split(self._said("no_proxy").lower()) if each)


async def through(
    stream: ByteStream, upstream: Upstream, host: str, port: int, head_bytes: int
) -> ByteStream:
    """What leads on to a host, over a connection to the proxy (`CONNECT`, RFC 9110, 9.3.6).

    Raises:
        Refusal: the proxy does not lead there.
    """
    where = written(host, port)
    side = Side(stream, h11.CLIENT, head_bytes)
    headers = [(b"host", where.encode()), *upstream.headers]
    try:
        await side.send(h11.Request(method=b"CONNECT", target=where.encode(), headers=headers))
        while not isinstance(answer := await side.next(), h11.Response):
            pass
    except LOST:
        raise Refusal(502, f"The worker's proxy hung up when it was asked for {where}") from None
    if answer.status_code == _ASKS_WHO:
        raise Refusal(
            502,
            "The worker's proxy asks who it is",
            "Its address takes them: http://user:password@host:port.",
        )
    if not 200 <= answer.status_code < 300:
        raise Refusal(502, f"The worker's proxy does not lead to {where}: it says {answer.status_code}")
    early, _ = side.http.trailing_data
    return Pushed(bytes(early), stream) if early else stream


def _read(said: str) -> Upstream:
    parts = urlsplit(said if "://" in said else f"http://{said}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in _PORTS:
        raise Refusal(
            502,
            f"The worker's proxy is of a kind that is not spoken here: {parts.scheme or 'none'}",
            "http:// and https:// are; NO_PROXY names what is reached without it.",
        )
    headers: tuple[Header, ...] = ()
    if parts.username is not None:
        shown = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers = ((b"proxy-authorization", b"Basic " + b64encode(shown)),)
    return Upstream(parts.scheme == "https", host, port or _PORTS[parts.scheme], headers)


def _fits(pattern: str, host: str, port: int) -> bool:
    """Whether a part of `NO_PROXY` means a host: `*`, a network, an address, a name with all below it; with a port."""
    if pattern == "*":
        return True
    address = address_of(host)
    if address is not None:
        try:
            return address in ip_network(pattern.strip("[]"), strict=False)
        except ValueError:
            return pattern in {f"{host}:{port}", f"[{host}]:{port}"}
    name, colon, said = pattern.rpartition(":")
    if colon and said.isdigit():
        if int(said) != port:
            return False
        pattern = name
    pattern = pattern.removeprefix("*").removeprefix(".")
    return bool(pattern) and (host == pattern or host.endswith(f".{pattern}"))
