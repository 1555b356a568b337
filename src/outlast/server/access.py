"""Who asks, for which tenant, and what they may."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from starlette.requests import Request


class Scope(StrEnum):
    """What somebody may do in a tenant; none of these holds another."""

    READ = "read"
    """See sessions, their turns, documents and files; follow them."""
    WRITE = "write"
    """Open sessions; send, steer, cancel, signal, edit documents, fork."""
    DECIDE = "decide"
    """Decide about calls, answer questions, let turns go on that are stuck or diverged."""
    ADMIN = "admin"
    """Erase sessions; see metrics and what the tenant has spent."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who may ask: stands in the audit line and as `by` in what they decide."""

    name: str
    """For people: the name of a token, the subject of an identity provider. Never a secret."""
    tenant: str
    scopes: frozenset[Scope]
    by_cookie: bool = False
    """A browser sends it by itself: what changes something must then come from our own page."""


NOBODY: Final = Identity("", "default", frozenset())
"""Who asks for what anybody may ask for."""


class Doorkeeper(Protocol):
    """Knows who asks."""

    async def identify(self, credential: str) -> Identity | None:
        """Whose credential (of `authorization: Bearer`, or of the page's cookie) it is; None: nobody's.

        Compares in constant time, and asks nobody outside for one that cannot be right.

        Raises:
            WorldUnavailable: it cannot be said now.
        """
        ...


class Doorkeepers:
    """Several doorkeepers, asked one after the other until one knows who it is."""

    def __init__(self, *them: Doorkeeper) -> None:
        self._them = them

    async def identify(self, credential: str) -> Identity | None:
        for one in self._them:
            found = await one.identify(credential)
            if found is not None:
                return found
        return None


COOKIE: Final = "outlast"
"""Of the page: HttpOnly, SameSite=Strict."""
OURS: Final = ("x-outlast", "page")
"""The header that only our own page can send with a cookie: another site's script may not, without CORS."""

FOREIGN: Final = (
    "What changes something and is sent with the page's cookie, or sets it, must come from the page "
    "(x-outlast: page)."
)


def credential_of(request: Request) -> tuple[str, bool]:
    """The credential that a request carries, empty if none, and whether a browser sent it by itself."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if given and scheme.lower() == "bearer":
        return given.strip(), False
    cookies: Mapping[str, str] = request.cookies
    return cookies.get(COOKIE, ""), True
