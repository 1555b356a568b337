"""The tree in the interpreter's memory: what is in it, what has changed since it was last looked at."""

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, cast

from bashkit import Bash, FileSystem

from outlast.workspaces.virtual.wire import FILE_LIMIT, ROOT, Failed, Piece

LINKS_LIMIT: Final = 40
"""Links that a path may lead through, as in Linux."""
WALKED_DIRS: Final = 100
"""Up to so many directories, to walk takes less time than to look at each file."""
_KINDS: Final[dict[str, Literal["file", "link", "dir"]]] = {
    "file": "file",
    "symlink": "link",
    "directory": "dir",
}
_NUMBERS: Final = re.compile(r"^# Files: (\d+)/\d+, Dirs: (\d+)$", re.MULTILINE)
_MODES: Final = {"file": 0o644, "dir": 0o755, "link": 0o777}
_SKELETON: Final = frozenset({"workspace", "bin", "usr", "dev", "proc"})
_ARGUMENTS: Final = 200


class Look(NamedTuple):
    """What tells that an entry is as it was: every write gives it a new time of creation or of change."""

    kind: Literal["file", "link", "dir"]
    size: int
    mode: int
    modified: float
    created: float


class RefusedError(Exception):
    """An ask cannot be done."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.detail)
        self.failed = failed


class Census(NamedTuple):
    """How many there are, and which of them are outside of the workspace."""

    files: int
    """And links, and pipes."""
    dirs: int
    outside: frozenset[str]


class Tree:
    """Invariants.

    1. `_seen` is what the site was last told, and `_census` was taken when that was seen.
    2. Nothing is new in the workspace if all that was seen is there, and the census is the same. To find that out takes
       a moment for each file; to walk takes one for each file and directory, since the interpreter lists a directory by
       going through all files there are.
    """

    def __init__(self, bash: Bash) -> None:
        self._bash = bash
        self._files: FileSystem = bash.fs()
        self._seen: dict[str, Look] = {}
        self._exact: dict[str, tuple[float, int]] = {}
        """Of what was loaded: the time of change as the interpreter says it, and as it is."""
        self._loaded: dict[str, Piece] = {}
        if not self._files.exists(ROOT):
            self._files.mkdir(ROOT, recursive=True)
        self._targets: dict[str, str] = {}
        """Of the links that were seen."""
        self.walked_dirs = WALKED_DIRS
        self._pipes = False
        """There was something in the workspace that is not kept, and may become something that is."""
        self._census: Census | None = None
        self._before = self._outside()

    def load(self, pieces: Iterable[Piece]) -> None:
        """Put pieces into the tree."""
        for piece in pieces:
            at = f"{ROOT}/{piece.path}"
            match piece.kind:
                case "dir":
                    self._files.mkdir(at)
                case "file":
                    self._files.write_file(at, piece.data)
                case "link":
                    self._files.symlink(piece.target, at)
            if piece.kind != "link" and piece.mode != _MODES[piece.kind]:
                self._files.chmod(at, piece.mode)
            piece.data = b""
            self._loaded[piece.path] = piece

    def loaded(self) -> None:
        """All is loaded: give it its times, and take it as told."""
        times: dict[int, list[str]] = {}
        for piece in self._loaded.values():
            if piece.kind != "link":  # the interpreter would give the time to what the link leads to
                times.setdefault(piece.mtime_ns, []).append(f"{ROOT}/{piece.path}")
        for mtime_ns, paths in times.items():
            for start in range(0, len(paths), _ARGUMENTS):
                self._bash.execute_sync(_touch(mtime_ns, paths[start : start + _ARGUMENTS]))
        self.changes()
        for path, look in self._seen.items():
            if (piece := self._loaded.get(path)) is not None:
                self._exact[path] = (look.modified, piece.mtime_ns)
        self._loaded = {}

    def changes(self) -> tuple[list[Piece], list[str]]:
        """What is not as the site was last told, without contents; and what is gone. The site is told with that."""
        wide = sum(look.kind == "dir" for look in self._seen.values()) > self.walked_dirs
        census = self._count() if wide else None
        found = self._seen_again() if census is not None and census == self._census else None
        if found is None:
            found = self.walk()
        gone = [path for path in self._seen if path not in found]
        changed = [self.piece(path, look) for path, look in found.items() if self._seen.get(path) != look]
        self._seen, self._census = found, None if self._pipes else census
        self._targets = {path: self._target(path) for path, look in found.items() if look.kind == "link"}
        return changed, gone

    def filled(self, piece: Piece) -> Piece:
        """With its content."""
        if piece.kind == "file":
            piece.data = self._files.read_file(f"{ROOT}/{piece.path}")
        return piece

    def outside(self) -> int:
        """How many files there are outside of the workspace that the shell did not begin with."""
        outside = self._outside() if self._census is None else self._census.outside
        return sum(not path.endswith("/") for path in outside - self._before)

    def stands(self) -> bool:
        """Make the root of the tree what it should be; False: it was something else."""
        if self._is_link(ROOT) or (
            self._files.exists(ROOT) and self._files.stat(ROOT)["file_type"] != "directory"
        ):
            self._files.remove(ROOT)
        elif self._files.exists(ROOT):
            return True
        self._files.mkdir(ROOT, recursive=True)
        return False

    def read(self, path: str) -> bytes:
        """The content of a file."""
        at = self._place(path)
        if self._kind(at, path) == "dir":
            raise _refused(path, "it is a directory")
        return self._files.read_file(at)

    def write(self, path: str, data: bytes, mode: int | None) -> None:
        """A file with its parents, whole or not at all."""
        at = self._place(path)
        if len(data) > FILE_LIMIT:
            raise _refused(path, f"{len(data):,} bytes are more than the {FILE_LIMIT:,} that a file may have")
        there = self._files.exists(at)
        if there:
            status = self._files.stat(at)
            if status["file_type"] == "directory":
                raise _refused(path, "it is a directory")
            mode = cast("int", status["mode"]) if mode is None else mode
        new = self._missing_above(at)
        try:
            if new:
                self._files.mkdir(posixpath.dirname(at), recursive=True)
            self._files.write_file(at, data)
        except RuntimeError as error:
            if new and self._files.exists(new):
                self._files.remove(new, recursive=True)
            raise _refused(path, _said(error)) from error
        if mode is not None:
            self._files.chmod(at, mode & 0o7777)

    def find(self, path: str) -> tuple[Piece, int] | None:
        """What is at a path, a link itself, with its size."""
        at = self._place(path, follow=False)
        parent, name = posixpath.split(at)
        if at == ROOT:
            status = self._files.stat(at)
            return Piece("", "dir", status["mode"], _nanoseconds(status["modified"])), 0
        found = self._files.exists(parent) and self._files.stat(parent)["file_type"] == "directory"
        for other, look in self._entries(parent) if found else ():
            if other == name:
                return self.piece(_relative(at), look), look.size
        return None

    def scan(self, path: str) -> list[tuple[Piece, int]]:
        """What is directly in a directory, by name."""
        at = self._place(path)
        if self._kind(at, path) != "dir":
            raise _refused(path, "it is no directory")
        entries = sorted(self._entries(at))
        return [(self.piece(_relative(f"{at}/{name}"), look), look.size) for name, look in entries]

    def remove(self, path: str) -> None:
        """What is at a path, with all that is in it."""
        at = self._place(path, follow=False)
        if at == ROOT:
            raise _refused(path, "the workspace itself cannot be removed; remove what is in it")
        if self.find(path) is None:
            raise RefusedError(Failed("missing", path))
        self._files.remove(at, recursive=True)

    def _place(self, path: str, *, follow: bool = True) -> str:
        """Where a path leads, through all links; but for a last one that is not to be followed."""
        rest = list(reversed(posixpath.join(ROOT, path).split("/")))
        stands: list[str] = []
        links = 0
        while rest:
            name = rest.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                stands = stands[:-1]
                continue
            at = "/" + "/".join([*stands, name])
            if (rest or follow) and self._is_link(at):
                links += 1
                if links > LINKS_LIMIT:
                    raise _refused(path, "it leads through too many links")
                target = self._files.read_link(at)
                stands = [] if target.startswith("/") else stands
                rest += reversed(target.split("/"))
            else:
                stands.append(name)
        at = "/" + "/".join(stands)
        if at != ROOT and not at.startswith(ROOT + "/"):
            raise RefusedError(Failed("outside", path))
        return at

    def _kind(self, at: str, path: str) -> str:
        if not self._files.exists(at):
            raise RefusedError(Failed("missing", path))
        return _KINDS.get(cast("str", self._files.stat(at)["file_type"]), "")

    def _is_link(self, at: str) -> bool:
        try:
            self._files.read_link(at)
        except RuntimeError:  # whatever else it is
            return False
        return True

    def _missing_above(self, at: str) -> str:
        """The topmost directory above `at` that is missing; empty: none is."""
        missing = ""
        while not self._files.exists(at := posixpath.dirname(at)):
            missing = at
        return missing

    def _entries(self, at: str) -> Iterator[tuple[str, Look]]:
        for entry in self._files.read_dir(at):
            look = _look(entry["metadata"])
            if look is None:
                self._pipes = True
            else:
                yield entry["name"], look

    def walk(self) -> dict[str, Look]:
        """All that is in the tree."""
        self._pipes = False
        found: dict[str, Look] = {}
        ahead = [""]
        while ahead:
            within = ahead.pop()
            for name, look in self._entries(f"{ROOT}/{within}".rstrip("/")):
                path = f"{within}/{name}" if within else name
                found[path] = look
                if look.kind == "dir":
                    ahead.append(path)
        return found

    def _seen_again(self) -> dict[str, Look] | None:
        """What was seen, as it is now; None if any of it is gone, or something else."""
        found: dict[str, Look] = {}
        try:
            for path, was in self._seen.items():
                if was.kind == "link":
                    look = was
                    if self._target(path) != self._targets[path]:
                        return None
                else:
                    facts = self._files.stat(f"{ROOT}/{path}")
                    look = _look(facts)
                    if look is None or look.kind != was.kind or self._is_link(f"{ROOT}/{path}"):
                        return None  # a link would look like what it leads to
                found[path] = look
        except RuntimeError:
            return None
        return found

    def _count(self) -> Census | None:
        numbers = _NUMBERS.search(self._bash.execute_sync("command df").stdout)
        return numbers and Census(int(numbers[1]), int(numbers[2]), self._outside())

    def _target(self, path: str) -> str:
        return self._files.read_link(f"{ROOT}/{path}")

    def piece(self, path: str, look: Look) -> Piece:
        """What was looked at, without its content."""
        loaded = self._exact.get(path)
        exact = loaded is not None and loaded[0] == look.modified
        mtime_ns = loaded[1] if loaded is not None and exact else _nanoseconds(look.modified)
        target = self._target(path) if look.kind == "link" else ""
        return Piece(path, look.kind, look.mode & 0o7777, mtime_ns, target=target)

    def _outside(self) -> frozenset[str]:
        """All files, and directories with a `/` behind, that are neither in the workspace nor programs."""
        found: set[str] = set()
        ahead = [""]
        while ahead:
            within = ahead.pop()
            for entry in self._files.read_dir(within or "/"):
                path = f"{within}/{entry['name']}"
                if entry["metadata"]["file_type"] != "directory":
                    found.add(path)
                elif within or entry["name"] not in _SKELETON:
                    found.add(f"{path}/")
                    ahead.append(path)
        return frozenset(found)


def _look(facts: dict[str, Any]) -> Look | None:
    kind = _KINDS.get(facts["file_type"])
    if kind is None:  # a named pipe is not kept
        return None
    size = facts["size"] if kind == "file" else 0
    return Look(kind, size, facts["mode"], facts["modified"], facts["created"])


def _touch(mtime_ns: int, paths: list[str]) -> str:
    seconds, below = divmod(mtime_ns, 1_000_000_000)
    try:
        when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError):  # no year that can be written: only the exact time is kept
        return ":"
    return f"touch -d {when}.{below:09d}Z -- {' '.join(map(shlex.quote, paths))}"


def _nanoseconds(modified: float) -> int:
    """The interpreter's time is a float, good to a microsecond."""
    return round(modified * 1_000_000) * 1_000


def _relative(at: str) -> str:
    return at.removeprefix(ROOT).removeprefix("/")


def _said(error: RuntimeError) -> str:
    return str(error).removeprefix("io error: ")


def _refused(path: str, reason: str) -> RefusedError:
    return RefusedError(Failed("refused", f"{path}: {reason}."))
