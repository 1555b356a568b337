"""The tree in the interpreter's memory: what is in it, what has changed since it was last looked at."""

import posixpath
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, cast

from bashkit import Bash, FileSystem

from outlast.workspaces.virtual.seeing import KINDS, Look, Sight
from outlast.workspaces.virtual.wire import ROOT, TARGET_LIMIT, Failed, Piece

LINKS_LIMIT: Final = 40
"""Links that a path may lead through, as in Linux."""
_MODES: Final = {"file": 0o644, "dir": 0o755, "link": 0o777}
_ARGUMENTS: Final = 200


class RefusedError(Exception):
    """An ask cannot be done."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.detail)
        self.failed = failed


class Tree:
    """Invariant: `_told` is what the site was last told."""

    def __init__(self, bash: Bash) -> None:
        self._bash = bash
        self._files: FileSystem = bash.fs()
        if not self._files.exists(ROOT):
            self._files.mkdir(ROOT, recursive=True)
        self.sight = Sight(bash, self._files)
        self._told: dict[str, Look] = {}
        self._exact: dict[str, tuple[float, int]] = {}
        """Of what was loaded: the time of change as the interpreter says it, and as it is."""
        self._loaded: dict[str, Piece] = {}
        self.dropped: list[str] = []
        """Links that `changes` has removed, since no tree can have them."""

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
        for path, look in self._told.items():
            if (piece := self._loaded.get(path)) is not None:
                self._exact[path] = (look.modified, piece.mtime_ns)
        self._loaded = {}

    def changes(self) -> tuple[list[Piece], list[str]]:
        """What is not as the site was last told, without contents; and what is gone. The site is told with that."""
        before, found = self._told, self.sight.look()
        self.dropped = [
            path for path, look in found.items() if look.kind == "link" and not self._can_lead(path)
        ]
        for path in self.dropped:
            self._files.remove(f"{ROOT}/{path}")
            del found[path]
        gone = [path for path in before if path not in found]
        changed = [self.piece(path, look) for path, look in found.items() if before.get(path) != look]
        self._told = found
        return changed, gone

    def _can_lead(self, path: str) -> bool:
        return 0 < len(self.sight.target(path).encode()) <= TARGET_LIMIT

    def filled(self, piece: Piece) -> Piece:
        """With its content."""
        if piece.kind == "file":
            piece.data = self._files.read_file(f"{ROOT}/{piece.path}")
        return piece

    def stands(self) -> bool:
        """Make the root of the tree what it should be; False: it was something else."""
        if self.sight.is_link(ROOT) or (
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
        kind = self._kind(at, path)
        if kind != "file":
            raise _refused(path, "it is a directory" if kind == "dir" else "it is no file")
        return self._files.read_file(at)

    def write(self, path: str, data: bytes, mode: int | None) -> None:
        """A file with its parents, whole or not at all."""
        at = self._place(path)
        there = self._files.exists(at)
        if there:
            status = self._files.stat(at)
            if status["file_type"] != "file":
                raise _refused(path, "what is there is no file")
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
        for other, look in self.sight.entries(parent) if found else ():
            if other == name and look is not None:
                return self.piece(_relative(at), look), look.size
        return None

    def scan(self, path: str) -> list[tuple[Piece, int]]:
        """What is directly in a directory, by name."""
        at = self._place(path)
        if self._kind(at, path) != "dir":
            raise _refused(path, "it is no directory")
        entries = sorted((name, look) for name, look in self.sight.entries(at) if look is not None)
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
            if (rest or follow) and self.sight.is_link(at):
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
        return KINDS.get(cast("str", self._files.stat(at)["file_type"]), "")

    def _missing_above(self, at: str) -> str:
        """The topmost directory above `at` that is missing; empty: none is."""
        missing = ""
        while not self._files.exists(at := posixpath.dirname(at)):
            missing = at
        return missing

    def piece(self, path: str, look: Look) -> Piece:
        """What was looked at, without its content."""
        loaded = self._exact.get(path)
        exact = loaded is not None and loaded[0] == look.modified
        mtime_ns = loaded[1] if loaded is not None and exact else _nanoseconds(look.modified)
        target = self.sight.target(path) if look.kind == "link" else ""
        return Piece(path, look.kind, look.mode & 0o7777, mtime_ns, target=target)


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
