"""Finds what has changed in the interpreter's files, by their times."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bashkit import Bash, FileSystem

from outlast.workspaces.virtual.wire import ROOT

Kind: TypeAlias = Literal["file", "link", "dir"]
KINDS: Final[dict[str, Kind]] = {"file": "file", "symlink": "link", "directory": "dir"}
_SKELETON: Final = frozenset({"workspace", "bin", "usr", "dev", "proc"})
_NUMBERS: Final = re.compile(r"^# Files: (\d+)/\d+, Dirs: (\d+)$", re.MULTILINE)


class Look(NamedTuple):
    """What tells that an entry is as it was: every write gives it a new time of creation or of change."""

    kind: Kind
    size: int
    mode: int
    modified: float
    created: float


class Census(NamedTuple):
    """How many files and directories there are in all, and the times of those outside of the workspace, by path."""

    numbers: tuple[int, int]
    outside: Mapping[str, tuple[float, float]]


class Sight:
    """Sees what is in the workspace. Everything is seen again in one of two ways, which come to the same.

    * *Walking* lists each directory. The interpreter lists one by going through all files there are: where there are
      hundreds of directories and thousands of files, that takes seconds.
    * *Counting* looks at each file that was seen before. If all are there, and there are as many in all, and the same
      outside of the workspace, then nothing came; what has another time was changed.

    A look follows links, so when counting, an entry that became a link shows what it leads to. That is noticed: what it
    leads to is another file, whose time of creation is its own (`_alone`); and either that is not what was seen of
    the entry, or the file that was there was moved to where the link leads (`_moved`).
    """

    def __init__(self, bash: Bash, files: FileSystem) -> None:
        self._bash = bash
        self._files = files
        self._seen: dict[str, Look] = {}
        self._targets: dict[str, str] = {}
        """Of the links that were seen."""
        self._census: Census | None = None
        """As all was when that was seen; None: what was seen cannot be counted."""
        self._around: Mapping[str, tuple[float, float]] | None = None
        """What is outside of the workspace, if that was looked at since the workspace was."""
        self._begun = frozenset(self._outside())

    def look(self) -> dict[str, Look]:
        """What is in the workspace, by path relative to its root."""
        census = self._count()
        before, found = self._census, None
        if census is not None and before is not None:
            found = self._counted(before, census)
        if found is None:
            found, pipes = self.walk()
            kept = not pipes and self._alone(found)
            self._targets = {path: self.target(path) for path, look in found.items() if look.kind == "link"}
        else:
            kept = True
        self._seen, self._census = found, census if kept else None
        return found

    def walk(self) -> tuple[dict[str, Look], bool]:
        """What is in the workspace, directory by directory; and whether there are pipes, which are not kept."""
        found: dict[str, Look] = {}
        pipes = False
        ahead = [""]
        while ahead:
            within = ahead.pop()
            for name, look in self.entries(f"{ROOT}/{within}".rstrip("/")):
                if look is None:
                    pipes = True
                    continue
                path = f"{within}/{name}" if within else name
                found[path] = look
                if look.kind == "dir":
                    ahead.append(path)
        return found, pipes

    def entries(self, at: str) -> Iterator[tuple[str, Look | None]]:
        """What is directly in a directory; None: a pipe."""
        for entry in self._files.read_dir(at):
            yield entry["name"], _look(entry["metadata"])

    def target(self, path: str) -> str:
        """Where a link leads."""
        return self._files.read_link(f"{ROOT}/{path}")

    def is_link(self, at: str) -> bool:
        """Whether there is a link at an absolute path."""
        try:
            self._files.read_link(at)
        except RuntimeError:  # whatever else it is
            return False
        return True

    def outside(self) -> int:
        """How many files there are outside of the workspace that the shell did not begin with."""
        self._around = self._outside()
        return sum(not path.endswith("/") for path in self._around if path not in self._begun)

    def _counted(self, before: Census, now: Census) -> dict[str, Look] | None:
        """What was seen, as it is now; None if it must be walked."""
        if before.numbers != now.numbers or before.outside.keys() != now.outside.keys():
            return None
        fresh = {times for path, times in now.outside.items() if before.outside[path] != times}
        found = dict(self._seen)
        changed: set[str] = set()
        stat = self._files.stat
        try:
            for path, was in self._seen.items():
                if was.kind == "link":
                    if self.target(path) != self._targets[path]:
                        return None
                    continue
                facts = stat(f"{ROOT}/{path}")
                look = _look(facts)
                if look != was:
                    if look is None or look.kind != was.kind or self.is_link(f"{ROOT}/{path}"):
                        return None
                    found[path] = look
                    changed.add(path)
        except RuntimeError:  # it is gone
            return None
        fresh |= {(found[path].modified, found[path].created) for path in changed}
        return None if fresh and self._moved(found, changed, fresh) else found

    def _moved(self, found: Mapping[str, Look], changed: set[str], fresh: set[tuple[float, float]]) -> bool:
        """Whether what is seen at a path that looks as before is now also seen at another."""
        return any(
            (look.modified, look.created) in fresh
            for path, look in found.items()
            if path not in changed and look.kind != "link"
        )

    def _alone(self, found: Mapping[str, Look]) -> bool:
        """Whether each entry was created at a time of its own."""
        created = Counter(look.created for look in found.values())
        return len(created) == len(found)

    def _count(self) -> Census | None:
        numbers = _NUMBERS.search(self._bash.execute_sync("command df").stdout)
        around, self._around = self._around, None
        if numbers is None:
            return None
        return Census((int(numbers[1]), int(numbers[2])), self._outside() if around is None else around)

    def _outside(self) -> dict[str, tuple[float, float]]:
        """All files, and directories with a `/` behind, that are neither in the workspace nor programs."""
        found: dict[str, tuple[float, float]] = {}
        ahead = [""]
        while ahead:
            within = ahead.pop()
            for entry in self._files.read_dir(within or "/"):
                path, facts = f"{within}/{entry['name']}", entry["metadata"]
                if facts["file_type"] != "directory":
                    found[path] = (facts["modified"], facts["created"])
                elif within or entry["name"] not in _SKELETON:
                    found[f"{path}/"] = (facts["modified"], facts["created"])
                    ahead.append(path)
        return found


def _look(facts: dict[str, Any]) -> Look | None:
    kind = KINDS.get(facts["file_type"])
    if kind is None:
        return None
    size = facts["size"] if kind == "file" else 0
    return Look(kind, size, facts["mode"], facts["modified"], facts["created"])
