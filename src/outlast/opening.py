"""Opens a World by its URL. Implementations are found through entry points, so that third parties can add theirs."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import TypeAlias, cast

from outlast.errors import BadInput
from outlast.settings import read_settings
from outlast.world import World

OpenWorld: TypeAlias = Callable[[str], AbstractAsyncContextManager[World]]
GROUP = "outlast.worlds"


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
    points = entry_points(group=GROUP)
    if not colon or scheme not in points.names:
        # Of the address no more than its scheme is told: it may hold a password.
        said = f"The scheme {scheme!r} is not known" if colon else "The address has no scheme"
        known = ", ".join(sorted(points.names))
        raise BadInput(
            detail=f"No World can be opened. {said}; known are {known}. Example: sqlite:/path/world.db"
        )
    return cast("OpenWorld", points[scheme].load())(target)
