"""How much of a user's directory is written down: what git does not ignore, as long as it is not too much.

**Where git cannot be asked, nothing is written down.** Else one moment in which it does not answer would write down
what is ignored (secrets among it), and an undo would remove it.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ENTRIES_LIMIT: Final = 20_000
BYTES_LIMIT: Final = 200 * 1024 * 1024
GIT_S: Final = 20.0
ELSEWHERE: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})
"""Variables that would have git speak of another repository, as where a hook of one runs us."""
RULES: Final = b".gitignore"
TOO_MUCH: Final = (
    "it has more than {what} beside what git ignores. Name in .gitignore what need not be kept, or open the session "
    "with local(path, checkpoint='off')"
)
UNTOLD: Final = (
    "it is in a repository of git, and git does not say what it ignores there: {reason}. See to it that "
    "`git status` works in it, or open the session with local(path, checkpoint='off')"
)


class UntoldError(Exception):
    """Git did not answer."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What is left out: git's own directories, and these paths below the directory with all that is in them."""

    ignored: frozenset[bytes] = frozenset()
    wanted: frozenset[bytes] = frozenset()
    """Paths that are not left out although they, or what they are in, are ignored."""

    def skips(self, path: bytes) -> bool:
        """Whether what is at this path is neither written down nor touched."""
        if path.rpartition(b"/")[2] == b".git":
            return True
        if not self.wanted:
            return path in self.ignored
        return path not in self.wanted and lies_in(path, self.ignored)

    def wanting(self, paths: Iterable[bytes]) -> "Extent":
        """The same, but for these paths, of which each directory is one."""
        return replace(self, wanted=frozenset(paths))

    def without(self, paths: Iterable[bytes]) -> "Extent":
        """The same, and these left out."""
        return replace(self, ignored=self.ignored.union(paths))


def lies_in(path: bytes, places: frozenset[bytes]) -> bool:
    """Whether a path, or something above it, is one of these."""
    return any(above in places for above in _with_above(path))


def _with_above(path: bytes) -> Iterator[bytes]:
    while path:
        yield path
        path = path.rpartition(b"/")[0]


def measured(directory: Path) -> Extent | str:
    """What is left out of a directory; or why nothing of it is written down."""
    try:
        extent = left_to_git(directory)
    except UntoldError as untold:
        return UNTOLD.format(reason=untold)
    size = 0
    for entries, entry in enumerate(_all(os.fsencode(directory), extent), 1):
        size += _size(entry)
        if entries > ENTRIES_LIMIT:
            return TOO_MUCH.format(what=f"{ENTRIES_LIMIT:,} files")
        if size > BYTES_LIMIT:
            return TOO_MUCH.format(what=f"{BYTES_LIMIT // 1024**2} MB")
    return extent


def _size(entry: "os.DirEntry[bytes]") -> int:
    """Bytes of a file; none of what goes while we look."""
    try:
        return entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    except OSError:
        return 0


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
    """What git ignores below a directory; nothing where that is in no repository.

    Raises:
        UntoldError
    """
    if not _in_repository(directory):
        return Extent()
    asked = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    told = _git(directory, asked)
    return Extent(frozenset(path.rstrip(b"/") for path in told.split(b"\0") if path))


def ignored_by(directory: Path, rules: Mapping[bytes, bytes], paths: Sequence[bytes]) -> frozenset[bytes]:
    """Which of these paths git would ignore, were the contents of `.gitignore` in and below a directory these.

    Args:
        directory: which.
        rules: the contents by path.
        paths: of files; those of directories end with a slash, here and in what is returned.

    Raises:
        UntoldError
    """
    if not paths or not _in_repository(directory):
        return frozenset()
    top, prefix, own = _git(
        directory, ["rev-parse", "--show-toplevel", "--show-prefix", "--absolute-git-dir"]
    ).split(b"\n")[:3]
    with TemporaryDirectory(prefix="outlast-") as scratch:
        within = os.fsencode(scratch)
        for above in list(_with_above(prefix.rstrip(b"/")))[1:] + ([b""] if prefix else []):
            known = Path(os.fsdecode(os.path.join(top, above, RULES)))  # noqa: PTH118 - bytes
            if known.is_file():
                _put(within, os.path.join(above, RULES), known.read_bytes())  # noqa: PTH118 - bytes
        for path, data in rules.items():
            _put(within, prefix + path, data)
        at = Path(os.fsdecode(within + b"/" + prefix))
        at.mkdir(parents=True, exist_ok=True)
        places = [b"--git-dir=" + own, b"--work-tree=" + within]
        told = _git(at, [*places, "check-ignore", "-z", "--stdin"], b"\0".join(paths), none=1)
    return frozenset(path for path in told.split(b"\0") if path)


def _put(within: bytes, path: bytes, data: bytes) -> None:
    at = Path(os.fsdecode(within + b"/" + path))
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_bytes(data)


def _in_repository(directory: Path) -> bool:
    real = directory.resolve()
    return any((above / ".git").exists() for above in (real, *real.parents))


def _git(directory: Path, words: Sequence[str | bytes], given: bytes = b"", *, none: int = 0) -> bytes:
    """What git says. `none` is the status with which it says that there is nothing."""
    environ = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    try:
        told = subprocess.run(
            ["git", *words],
            cwd=directory,
            env=environ,
            input=given,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UntoldError(f"it took longer than {GIT_S:g} s") from None
    except OSError as error:
        raise UntoldError(f"it cannot be started ({error.strerror})") from None
    if told.returncode not in {0, none}:
        reason = told.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise UntoldError(reason or f"it ended with status {told.returncode}")
    return told.stdout
