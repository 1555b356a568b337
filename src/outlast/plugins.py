"""What installed packages bring: the entry points of a group."""

import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points


def brought(group: str) -> EntryPoints:
    """The entry points of `group`, as the packages have them that can be imported now.

    Every package's files are read for that, some milliseconds' worth: once for each place that Python looks in.
    """
    return _read(group, tuple(sys.path))


@lru_cache(maxsize=32)
def _read(group: str, _path: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=group)
