"""What a sandbox may reach, and what is added to its requests on the way out.

These are descriptions: they stand in the session's first record, so none of them holds a secret. A `Secret` says where
the worker that opens the sandbox finds it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from outlast.errors import BadInput
from outlast.workspaces.egress.hosts import address_of, canonical
from outlast.workspaces.egress.paths import normal

Source: TypeAlias = Literal["env", "file", "call"]
Form: TypeAlias = Literal["basic", "bearer", "header"]
Scope: TypeAlias = Literal["agent", "session"]

WEB_PORTS: Final = (80, 443)
_USUAL: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_OURS_ALONE: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "expect"}
)


@dataclass(frozen=True, slots=True)
class Allow:
    """Hosts that a sandbox reaches. What is said there is not looked at, unless a `Credential` is for the same host.

    Raises:
        BadInput: it means no host; the text says why.
    """

    host: str
    """A name, `*.suffix` for all names below it, `*` for all names, or an address."""
    ports: Sequence[int] = WEB_PORTS
    """Empty: any."""
    private: bool = False
    """Whether the name may lead into private networks and, if it is no pattern, to the worker's own machine."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", _pattern(self.host, "Allow"))
        object.__setattr__(self, "ports", _ports(self.ports, self.host))
        if self.private and self.host == "*":
            raise BadInput(
                detail="Allow('*', private=True) would open every network of yours. Name the hosts."
            )

    @staticmethod
    def read(text: str) -> "Allow":
        """`host`, `host:port` or `host:*`.

        Raises:
            BadInput
        """
        host, colon, port = text.rpartition(":")
        if not colon or (text.endswith("]") and text.startswith("[")):
            return Allow(text)
        if port == "*":
            return Allow(host, ())
        if not port.isascii() or not port.isdecimal():
            raise BadInput(
                detail=f"{text!r} is no host to allow: write a host, host:port or host:*, without a path."
            )
        return Allow(host, (int(port),))

    def reference(self) -> Mapping[str, Any]:
        return {"host": self.host, "ports": list(self.ports), "private": self.private}


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a worker finds a secret; never the secret. Made by `from_env`, `from_file`, `from_call`.

    Raises:
        BadInput
    """

    source: Source
    name: str
    """Of the variable; the path; `module:function`. `{session}` and `{tenant}` in the first two stand for those."""

    def __post_init__(self) -> None:
        if self.source not in {"env", "file", "call"}:
            raise BadInput(detail=f"A secret comes from env, file or call, not from {self.source!r}.")
        if self.source == "call" and not _CALL.fullmatch(self.name):
            raise BadInput(
                detail=f"{self.name!r} names no function. Write module:function, as it is imported by each worker."
            )
        if not self.name or any(sign < " " for sign in self.name):
            raise BadInput(detail="A secret needs the name under which the worker finds it.")


def from_env(name: str) -> Secret:
    """The secret is in this environment variable of the worker."""
    return Secret("env", name)


def from_file(path: str) -> Secret:
    """The secret is in this file of the worker's machine, read at each use."""
    return Secret("file", path)


def from_call(function: str | Callable[..., Any]) -> Secret:
    """The secret is what this function says: of no arguments, or of a `Who` where `scope="session"`; may be async.

    It is recorded by name, and each worker imports it: a function of a module, or `module:function`.

    Raises:
        BadInput: it is nobody's to import: a lambda, a method, an inner function.
    """
    if isinstance(function, str):
        return Secret("call", function)
    name = str(getattr(function, "__qualname__", ""))
    if not name.isidentifier() or function.__module__ == "__main__":
        raise BadInput(
            detail=f"{name or function!r} cannot be imported by a worker. Use a function of a module."
        )
    return Secret("call", f"{function.__module__}:{name}")


@dataclass(frozen=True, slots=True)
class Credential:
    """What the way out adds to the requests of a sandbox for one host and what is below one path there.

    A host that only credentials name is reached with what they fit, and nothing else; one that is allowed as well with
    anything. On all requests to such a host what the sandbox itself brings (`Authorization`, cookies) is taken off.

    Raises:
        BadInput
    """

    host: str
    """A name, `*.suffix` or an address; or a URL, `http://forge.internal:3000/team`, which says the next three too."""
    secret: Secret
    path: str = "/"
    """What this is or what is below it: `/team/site.git`."""
    scheme: Literal["https", "http"] = "https"
    port: int = 0
    """0: the usual one."""
    kind: Form = "bearer"
    """`Authorization: Bearer …`; `basic`, with `user`; a `header` of another name."""
    user: str = ""
    header: str = ""
    methods: Sequence[str] = ()
    """Empty: all."""
    private: bool = False
    """As in `Allow`."""
    scope: Scope = "agent"
    """Whether all sessions of an agent use one secret, or each has its own."""
    name: str = ""
    """In logs and events; by default host and path."""

    def __post_init__(self) -> None:
        self._read_host()
        path = normal(self.path)
        if path is None or "?" in self.path:
            raise BadInput(
                detail=f"{self.path!r} is no path: begin with a slash, without dots, a query or a backslash."
            )
        object.__setattr__(self, "path", path)
        _ports((self.port,), self.host)
        object.__setattr__(self, "methods", tuple(method.upper() for method in self.methods))
        object.__setattr__(self, "name", self.name or f"{self.host}{self.path}")
        self._check_form()
        if self.scope not in {"agent", "session"}:
            raise BadInput(detail=f"The scope of a credential is agent or session, not {self.scope!r}.")

    @property
    def header_name(self) -> str:
        """Of the header that it stands in, lower case."""
        return self.header.lower() if self.kind == "header" else "authorization"

    def reference(self) -> Mapping[str, Any]:
        found = {name: getattr(self, name) for name in self.__slots__}
        return found | {
            "secret": {"source": self.secret.source, "name": self.secret.name},
            "methods": list(self.methods),
        }

    def _read_host(self) -> None:
        host, scheme, port, path = self.host, self.scheme, self.port, self.path
        if "://" in host:
            host, scheme, port, path = _of_url(host, path)
        if scheme not in _USUAL:
            raise BadInput(detail=f"A credential is for https or http, not for {scheme!r}.")
        host = _pattern(host, "Credential")
        if host == "*":
            raise BadInput(
                detail="A credential for every host would be given to every host. Name the one it is for."
            )
        for name, value in {
            "host": host,
            "scheme": scheme,
            "port": port or _USUAL[scheme],
            "path": path,
        }.items():
            object.__setattr__(self, name, value)

    def _check_form(self) -> None:
        if self.kind not in {"basic", "bearer", "header"}:
            raise BadInput(detail=f"The kind of a credential is basic, bearer or header, not {self.kind!r}.")
        user = self.user
        if self.kind == "basic" and (not user or ":" in user or not user.isascii() or not user.isprintable()):
            raise BadInput(detail=f"The credential {self.name!r} is basic: it needs a user, without a colon.")
        if self.kind == "header" and (
            not _TOKEN.fullmatch(self.header) or self.header.lower() in _OURS_ALONE
        ):
            raise BadInput(
                detail=f"The credential {self.name!r} needs the name of a header, not {self.header!r}."
            )


@dataclass(frozen=True, slots=True)
class Network:
    """All that a sandbox reaches besides the gateway. Made by `network`."""

    allow: tuple[Allow, ...] = ()
    credentials: tuple[Credential, ...] = ()

    def reference(self) -> Mapping[str, Any]:
        """As JSON, from which `read_network` makes it again."""
        return {
            "allow": [each.reference() for each in self.allow],
            "credentials": [each.reference() for each in self.credentials],
        }


def network(allow: Sequence[str | Allow] = (), credentials: Sequence[Credential] = ()) -> Network:
    """What a sandbox reaches.

    Args:
        allow: `Allow`, or text as `Allow.read` takes it.
        credentials: what is added on the way out.

    Raises:
        BadInput: one of them cannot be meant; or two credentials have one name.
    """
    if isinstance(allow, str):
        raise BadInput(detail=f"allow is a list of hosts: write [{allow!r}].")
    names = [credential.name for credential in credentials]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(detail=f"Two credentials are named {twice[0]!r}. Give each a name of its own.")
    return Network(
        tuple(each if isinstance(each, Allow) else Allow.read(each) for each in allow), tuple(credentials)
    )


def read_network(reference: Mapping[str, Any]) -> Network:
    """What `Network.reference` wrote.

    Raises:
        BadInput: it cannot be read; a field is unknown, say, since a newer outlast wrote it.
    """
    allow: list[dict[str, Any]] = reference.get("allow", [])
    credentials: list[dict[str, Any]] = reference.get("credentials", [])
    try:
        return network([Allow(**each) for each in allow], [_credential(**each) for each in credentials])
    except (TypeError, KeyError, AttributeError) as error:
        raise BadInput(detail=f"What the sandbox may reach cannot be read: {error}.") from error


def _credential(*, secret: Mapping[str, Any], **rest: Any) -> Credential:
    return Credential(secret=Secret(**secret), **rest)


def _pattern(text: str, what: str) -> str:
    stars = 2 if text.startswith("*.") else 0
    try:
        if text == "*":
            return text
        host = canonical(f"[{text}]" if ":" in text and not text.startswith("[") else text[stars:])
    except ValueError as error:
        raise BadInput(
            detail=f"{what}({text!r}): {error}. Write a name, *.suffix or an address; other letters as in xn--…"
        ) from None
    if stars and address_of(host) is not None:
        raise BadInput(detail=f"{what}({text!r}): there are no names below an address.")
    return text[:stars] + host


def _ports(ports: Sequence[int], host: str) -> tuple[int, ...]:
    for port in ports:
        if isinstance(port, bool) or not 0 < port < 65536:
            raise BadInput(detail=f"{port!r} is no port of {host}: ports are 1 to 65535.")
    return tuple(ports)


def _of_url(url: str, path: str) -> tuple[str, Any, int, str]:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port or 0
    except ValueError as error:
        raise BadInput(detail=f"Credential({url!r}): {error}.") from None
    if parts.username or parts.password or "@" in parts.netloc:
        raise BadInput(
            detail="A secret does not stand in a URL: it would be written down. Give user= and secret=."
        )
    if parts.query or parts.fragment:
        raise BadInput(detail=f"Credential({url!r}): a query or fragment cannot be told apart. Leave it out.")
    if parts.path not in {"", "/"} and path != "/":
        raise BadInput(detail=f"Credential({url!r}, path={path!r}): say the path once.")
    return host, parts.scheme, port, parts.path if parts.path not in {"", "/"} else path
