"""What a way out tells of what went through it and what did not: ids, hosts and paths; no payload, no secret."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from outlast.logs import logger

log = logger("outlast.egress")


@dataclass(frozen=True, slots=True)
class Who:
    """The session that a way out is for."""

    tenant: str
    session: str


@dataclass(frozen=True, slots=True)
class CredentialUsed:
    """A credential was added to a request."""

    who: Who
    credential: str
    """Its name."""
    method: str
    host: str
    port: int
    path: str
    """Without the query."""
    status: int
    """What the host answered; 0: nothing."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection to a host that is allowed; what goes through it is not looked at."""

    who: Who
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Something was not let out."""

    who: Who
    host: str
    """As it was asked for; empty where no host could be made out."""
    port: int
    why: str


Event: TypeAlias = CredentialUsed | Opened | TurnedAway
Told: TypeAlias = Callable[[Event], None]


def write_down(event: Event) -> None:
    """As a log line."""
    who = event.who
    match event:
        case CredentialUsed(credential=name, method=method, host=host, port=port, path=path, status=status):
            log.info("%s: %s %s:%d%s with %r: %d", who.session, method, host, port, path, name, status)
        case Opened(host=host, port=port):
            log.info("%s: connected to %s:%d", who.session, host, port)
        case TurnedAway(host=host, port=port, why=why):
            log.info("%s: turned away from %s:%d: %s", who.session, host, port, why)
