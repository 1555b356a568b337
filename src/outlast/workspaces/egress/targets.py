"""Where a request wants to go, and what it must not say besides."""

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

import h11

from outlast.workspaces.egress.hosts import split_authority, written
from outlast.workspaces.egress.policy import Refusal
from outlast.workspaces.egress.wire import values

USUAL: Final = {"http": 80, "https": 443}
"""Ports."""


@dataclass(frozen=True, slots=True)
class Target:
    """Of a request."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    origin: str
    """Path and query."""

    @property
    def path(self) -> str:
        return self.origin.partition("?")[0]


def connect_target(asked: h11.Request) -> tuple[str, int]:
    """Host and port of a `CONNECT`.

    Raises:
        Refusal
    """
    try:
        return split_authority(asked.target.decode("ascii"))
    except ValueError as error:
        raise Refusal(400, f"CONNECT leads nowhere: {error}") from None


def target_of(asked: h11.Request, within: tuple[str, int] | None) -> Target:
    """Of any other request; `within`: host and port of the `CONNECT` that it came through.

    Raises:
        Refusal
    """
    text = asked.target.decode("ascii")
    if within is not None:
        if not text.startswith("/"):
            raise Refusal(400, "Inside of CONNECT the target of a request begins with a slash")
        return Target("https", *within, text)
    scheme, separator, _ = text.partition("://")
    if not separator or scheme.lower() != "http":
        raise _no_proxy_request(scheme.lower() if separator else "")
    try:
        netloc = urlsplit(text).netloc
        host, port = _authority(netloc, 80)
    except ValueError as error:
        raise Refusal(400, f"The address of the request leads nowhere: {error}") from None
    origin = text[len(scheme) + 3 + len(netloc) :].partition("#")[0]
    return Target("http", host, port, origin if origin.startswith("/") else f"/{origin}")


def check(asked: h11.Request, target: Target) -> None:
    """Let through only requests of which host and proxy cannot think differently.

    Raises:
        Refusal
    """
    headers = asked.headers
    chunked = bool(values(headers, b"transfer-encoding"))
    if chunked and values(headers, b"content-length"):
        raise Refusal(400, "A request says the length of its body once: Content-Length or Transfer-Encoding")
    if chunked and asked.http_version != b"1.1":
        raise Refusal(400, "A chunked body needs HTTP/1.1")
    if values(headers, b"upgrade"):
        raise Refusal(501, "Another protocol (Upgrade, WebSocket) is not carried here", "Ask over HTTP/1.1.")
    for name, value in headers:
        if name == b"host":
            _check_host(value.decode("latin-1"), target)


def _check_host(said: str, target: Target) -> None:
    try:
        found = _authority(said, USUAL[target.scheme])
    except ValueError:
        found = ("", 0)
    if found != (target.host, target.port):
        raise Refusal(421, f"The Host header names another host than {written(target.host, target.port)}")


def _authority(text: str, usual: int) -> tuple[str, int]:
    has_port = ":" in text.rpartition("]")[2]
    return split_authority(text if has_port else f"{text}:{usual}")


def _no_proxy_request(scheme: str) -> Refusal:
    short = "This is a proxy: ask for http://host/path"
    if scheme == "https":
        short = "This proxy does not encrypt for its clients: reach hosts of https through CONNECT"
    return Refusal(400, short, "HTTP_PROXY, HTTPS_PROXY and NO_PROXY say so to programs that read them.")
