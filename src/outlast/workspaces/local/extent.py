"""How much of a user's directory is written down: what git does not ignore, as long as it is not too much."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENTRIES_LIMIT: Final = 20_000
BYTES_LIMIT: Final = 200 * 1024 * 1024
GIT_S: Final = 20.0
TOO_MUCH: Final = (
    "it has more than {what} beside what git ignores. Name in .gitignore what need not be kept, or open the session "
    "with local(path, checkpoint='off')"
)


@dataclass(frozen=True, slots=True)
class Extent:
    """What is left out: git's own directories, and these paths below the directory with all that is in them."""

    ignored: frozenset[bytes] = frozenset()

    def skips(self, path: bytes) -> bool:
        """Whether what is at this path is neither written down nor touched."""
        return path in self.ignored or path.rpartition(b"/")[2] == b".git"


def measured(directory: Path) -> Extent | str:
    """What is left out of a directory; or why nothing of it is written down."""
    extent = left_to_git(directory)
    size = 0
    for entries, entry in enumerate(_all(os.fsencode(directory), extent), 1):
        size += entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
        if entries > ENTRIES_LIMIT:
            return TOO_MUCH.format(what=f"{ENTRIES_LIMIT:,} files")
        if size > BYTES_LIMIT:
            return TOO_MUCH.format(what=f"{BYTES_LIMIT // 1024**2} MB")
    return extent


def _all(root: bytes, extent: Extent) -> Iterator["os.DirEntry[bytes]"]:
    waiting = [b""]
    while waiting:
        at = waiting.pop()
        try:
            found = list(os.scandir(os.path.join(root, at)))  # noqa: PTH118 - bytes
        except OSError:
            continue  # whoever writes it down says so
        for entry in found:
            path = at + b"/" + entry.name if at else entry.name
            if extent.skips(path):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            yield entry


def left_to_git(directory: Path) -> Extent:
    """What git ignores below a directory; nothing where that is in no repository, or there is no git."""
    argv = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    try:
        told = subprocess.run(
            argv, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Extent()
    if told.returncode:
        return Extent()
    return Extent(frozenset(path.rstrip(b"/") for path in told.stdout.split(b"\0") if path))
