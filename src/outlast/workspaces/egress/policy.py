"""What may go out, and with which credential: a decision about words, without any I/O."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from outlast.workspaces.egress.hosts import Address, Land, address_of, fits, land_of, written
from outlast.workspaces.egress.paths import below, normal
from outlast.workspaces.egress.rules import Allow, Credential, Network

_WHO: Final = (
    "authorization",
    "cookie",
    "cookie2",
    "deploy-token",
    "job-token",
    "private-token",
    "x-api-key",
    "x-auth-token",
)
_OTHERWISE: Final = (
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-forwarded-uri",
    "x-forwarded-prefix",
)
"""By these some hosts take a request for another than its first line says, which is what was judged."""
WAY_IN: Final = "Its owner lists what it reaches: sandbox(allow=[…])"


class Refusal(Exception):
    """A request that is not let out.

    Attributes:
        status: how HTTP puts it.
        short: for a status line.
    """

    def __init__(self, status: int, short: str, more: str = "") -> None:
        self.status = status
        self.short = short
        super().__init__(f"{short}. {more}".rstrip())


@dataclass(frozen=True, slots=True)
class Grant:
    """A host that may be reached."""

    scheme: Literal["https", "http", ""]
    """Empty: what is said there is not looked at."""
    host: str
    port: int
    lands: frozenset[Land]
    """Where its name may lead."""
    credential: Credential | None = None


class Policy:
    """Decides what a sandbox reaches."""

    def __init__(self, network: Network) -> None:
        self._allow = network.allow
        self._credentials = network.credentials

    def tunnel(self, host: str, port: int) -> Grant:
        """A connection to a canonical host; of `https` where its requests must be looked at.

        Raises:
            Refusal
        """
        looked = self._meant("https", host, port)
        allowed = self._allowed(host, port)
        if looked:
            return Grant("https", host, port, _lands(host, [*looked, *allowed]))
        if self._meant("http", host, port):
            # In a tunnel nobody sees what of it the credential is for, and what the sandbox brings of its own.
            short = (
                f"{written(host, port)} is reached with plain requests of http:// here, not through CONNECT"
            )
            raise Refusal(403, short, "Its owner has a credential for it, which is added to such requests.")
        if not allowed:
            raise self._not_allowed(host, port)
        return Grant("", host, port, _lands(host, allowed))

    def request(
        self, scheme: Literal["https", "http"], where: tuple[str, int], method: str, path: str
    ) -> Grant:
        """A request to a canonical host and port, for a path without its query.

        Raises:
            Refusal
        """
        host, port = where
        if method.upper() in {"TRACE", "TRACK", "CONNECT"}:
            # The first two are answered with the request itself, and what was added to it.
            raise Refusal(405, f"{method[:16]} is not carried")
        plain = normal(path)
        if plain is None:
            raise Refusal(
                400, "The path of a request must be written without dots, backslashes and double escapes"
            )
        meant, allowed = self._meant(scheme, host, port), self._allowed(host, port)
        fitting = [each for each in meant if below(each.path, plain) and _takes(each, method)]
        if fitting:
            chosen = max(fitting, key=_nearness)
            return Grant(scheme, host, port, _lands(host, [*meant, *allowed]), chosen)
        if not allowed:
            raise (
                self._not_allowed(host, port) if not meant else _not_below(meant, method, written(host, port))
            )
        return Grant(scheme, host, port, _lands(host, [*meant, *allowed]))

    def taken_off(self, host: str) -> frozenset[str]:
        """Headers that requests to a host must not bring: empty where no credential is for it, by whatever port.

        As `plain_name` has them.
        """
        meant = [plain_name(each.header_name) for each in self._credentials if fits(each.host, host)]
        return frozenset({*_WHO, *_OTHERWISE, *meant}) if meant else frozenset()

    def _meant(self, scheme: str, host: str, port: int) -> list[Credential]:
        return [
            each
            for each in self._credentials
            if each.scheme == scheme and each.port == port and fits(each.host, host)
        ]

    def _allowed(self, host: str, port: int) -> list[Allow]:
        return [
            each for each in self._allow if fits(each.host, host) and (not each.ports or port in each.ports)
        ]

    def _not_allowed(self, host: str, port: int) -> Refusal:
        where = written(host, port)
        other = [each for each in self._allow if fits(each.host, host)]
        if other:
            ports = ", ".join(str(each) for rule in other for each in rule.ports)
            return Refusal(
                403, f"{where} is not allowed in this sandbox, only port {ports} of it", f"{WAY_IN}."
            )
        return Refusal(403, f"{where} is not allowed in this sandbox", f"{WAY_IN}.")


def plain_name(header: str) -> str:
    """The name of a header as hosts compare it: to many of them (CGI, WSGI) `_` and `-` are one."""
    return header.lower().replace("_", "-")


def permitted(grant: Grant, addresses: Iterable[Address]) -> list[Address]:
    """Those of the addresses of a host that it may have.

    Raises:
        Refusal: none of them.
    """
    found = list(addresses)
    good = [address for address in found if land_of(address) in grant.lands]
    if good:
        return good
    where = written(grant.host, grant.port)
    lands = {land_of(address) for address in found}
    if not lands:
        raise Refusal(502, f"{where} has no address")
    if lands <= {"private", "loopback"} and "private" not in grant.lands:
        short = (
            f"{where} leads into a private network, which its owner would mean by Allow(host, private=True)"
        )
        raise Refusal(403, short)
    raise Refusal(403, f"{where} leads to an address that is never reached by a name")


def _lands(host: str, rules: Iterable[Allow | Credential]) -> frozenset[Land]:
    if address_of(host) is not None:
        return frozenset(
            {"public", "private", "loopback", "link"}
        )  # whoever wrote the address down has meant it
    private = [rule for rule in rules if rule.private]
    lands: set[Land] = {"public"}
    if private:
        lands.add("private")
    if any(not rule.host.startswith("*") for rule in private):
        lands.add("loopback")
    return frozenset(lands)


def _takes(credential: Credential, method: str) -> bool:
    return not credential.methods or method in credential.methods


def _nearness(credential: Credential) -> tuple[int, bool, bool]:
    return len(credential.path), not credential.host.startswith("*"), bool(credential.methods)


def _not_below(meant: list[Credential], method: str, where: str) -> Refusal:
    paths = ", ".join(sorted({each.path for each in meant}))
    methods = sorted({name for each in meant for name in each.methods})
    only = f"{paths} ({', '.join(methods)})" if methods else paths
    return Refusal(
        403,
        f"{method[:16]} of this path of {where} is not allowed in this sandbox, only {only}",
        f"{WAY_IN}.",
    )
