"""Opens a World, and makes a waker, by its URL.

Implementations are found through entry points, so that third parties can add theirs.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, cast

from outlast.errors import BadInput, BadSettings
from outlast.plugins import brought
from outlast.settings import Settings, read_settings
from outlast.waker import Waker
from outlast.world import World

OpenWorld: TypeAlias = Callable[[str], AbstractAsyncContextManager[World]]
MakeWaker: TypeAlias = Callable[[str, str], Waker]
GROUP = "outlast.worlds"
WAKERS = "outlast.wakers"


def open_world(url: str | None = None) -> AbstractAsyncContextManager[World]:
    """Open the World at `url`, by default `OUTLAST_WORLD`, else a file in the user's data directory.

    Args:
        url: `scheme:rest`; the scheme names an entry point of the group `outlast.worlds`, whose function is given
            the whole URL and returns an asynchronous context manager.

    Raises:
        BadInput: no installed package knows the scheme.
        WorldUnavailable: (on entering) the store cannot be used.
    """
    target = url or read_settings().world_url
    scheme, colon, _ = target.partition(":")
    points = brought(GROUP)
    if not colon or scheme not in points.names:
        # Of the address no more than its scheme is told: it may hold a password.
        said = f"The scheme {scheme!r} is not known" if colon else "The address has no scheme"
        known = ", ".join(sorted(points.names))
        raise BadInput(
            detail=f"No World can be opened. {said}; known are {known}. Example: sqlite:/path/world.db"
        )
    return cast("OpenWorld", points[scheme].load())(target)


def make_waker(url: str, token: str = "") -> Waker:
    """The waker that a URL names: `https://…`, `sqs://…`, `postgres://…`.

    Args:
        url: its scheme names an entry point of the group `outlast.wakers`, whose function is given the whole URL and
            the token.
        token: sent along where that is how one is let in.

    Raises:
        BadInput: no installed package knows the scheme, or the URL cannot be used.
    """
    scheme, colon, _ = url.partition("://")
    points = brought(WAKERS)
    if not colon or scheme not in points.names:
        known = ", ".join(sorted(points.names))
        raise BadInput(detail=f"Nobody can be woken at such a URL. Its scheme must be one of {known}.")
    return cast("MakeWaker", points[scheme].load())(url, token)


def waker_of(settings: Settings) -> Waker | None:
    """Who is woken, as the settings have it; None: nobody.

    Raises:
        BadSettings: the URL cannot be used.
    """
    if not settings.waker_url:
        return None
    try:
        return make_waker(settings.waker_url, settings.waker_token)
    except BadInput as error:
        # Of the address nothing is told: it may hold a password.
        raise BadSettings(
            name="waker_url",
            value="…",
            reason=str(error).rstrip("."),
            source="the environment or outlast.toml",
        ) from None
