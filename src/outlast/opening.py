"""Opens a World by its URL. Implementations are found through entry points, so that third parties can add theirs."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import cast

from outlast.errors import BadInput
from outlast.settings import read_settings
from outlast.world import World

OpenWorld = Callable[[str], AbstractAsyncContextManager[World]]
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
    found = [point for point in entry_points(group=GROUP) if point.name == scheme]
    if not colon or not found:
        known = ", ".join(sorted({point.name for point in entry_points(group=GROUP)}))
        raise BadInput(detail=f"No World is known for {target!r}. Known schemes: {known}. Example: sqlite:/path/world.db")
    return cast("OpenWorld", found[0].load())(target)
