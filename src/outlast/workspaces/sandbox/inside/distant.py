"""The files of directories in a box, for a drive that is not on its machine. Runs as a job; Python 3.9 alone.

    python3 -I -S -c … WINDOW DIRECTORY…

What goes in and out are messages: four bytes of length, four of the length of what follows it, a map as JSON, bytes.
Names are text with `surrogateescape`. Each question has its `do` and, as `of`, the number of the directory; it is
answered by messages of which the last is `{"end": 1}` or `{"error": …}`, and then comes the next one.

    scan {since}        what is in it; where `since` is the number of the scan before, what is not as it was then
    read {paths}        the contents of files
    apply, steps, done  make changes

No more than WINDOW bytes are written that the worker has not said (`{"took": n}`) that it has read: what a box keeps of
a job's output is bounded. No verb follows a link below the directory. After an error of `apply` the program ends.
"""

# ruff: noqa: PTH208
# pathlib would double the start-up time.

from __future__ import annotations

import json
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE = 1 << 20
_OUT = 1 << 16
_AT_ONCE = 500
_DEEPEST = 200
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Pipe:
    """Messages in and out; never more than `window` bytes ahead of whoever reads."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._ahead = 0
        self._unsaid = bytearray()

    def tell(self, said: dict[str, Any], data: bytes = b"") -> None:
        """One message out, now or with those that follow."""
        head = json.dumps(said).encode()
        self._unsaid += len(head).to_bytes(4, "big") + len(data).to_bytes(4, "big") + head + data
        if len(self._unsaid) >= _OUT:
            self.flush()

    def flush(self) -> None:
        """What was told is out: in one piece, where it is short, and so heard with one question."""
        rest = memoryview(bytes(self._unsaid))
        self._unsaid.clear()
        while rest:
            while self._ahead >= self._window:
                self._ahead -= self.hear()[0]["took"]
            wrote = os.write(1, rest[: min(_OUT, self._window - self._ahead)])
            self._ahead += wrote
            rest = rest[wrote:]

    def hear(self) -> tuple[dict[str, Any], bytes]:
        """The next message in. The worker's end is ours."""
        head = _exactly(8)
        said = json.loads(_exactly(int.from_bytes(head[:4], "big")))
        return said, _exactly(int.from_bytes(head[4:], "big"))

    def asked(self) -> dict[str, Any]:
        """The next question."""
        said = self.hear()[0]
        while "took" in said:
            self._ahead -= said["took"]
            said = self.hear()[0]
        return said


def _exactly(size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        piece = os.read(0, min(size, PIECE))
        if not piece:
            sys.exit(0)
        parts.append(piece)
        size -= len(piece)
    return b"".join(parts)


class Tree:
    """A directory, and what was last said of it."""

    def __init__(self, path: str, pipe: Pipe) -> None:
        self._path = path
        self._pipe = pipe
        self._fd = -1
        self._number = 0
        self._lines: dict[str, list[object]] = {}

    @property
    def fd(self) -> int:
        """It, open."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self._fd

    def scan(self, since: int) -> None:
        """Tell what is in it, or what is not as it was."""
        looked_ns = time.time_ns()
        found: dict[str, list[object]] = {}
        _look(self.fd, "", found, 1)
        old = self._lines if since and since == self._number else {}
        new = [line for path, line in found.items() if old.get(path) != line]
        gone = [path for path in old if path not in found]
        self._number, self._lines = self._number + 1, found
        said = {"scan": self._number, "looked_ns": looked_ns, "since": since if old else 0}
        self._pipe.tell(said)
        for begin in range(0, len(new), _AT_ONCE):
            self._pipe.tell({"seen": new[begin : begin + _AT_ONCE]})
        for begin in range(0, len(gone), _AT_ONCE):
            self._pipe.tell({"gone": gone[begin : begin + _AT_ONCE]})

    def read(self, path: str) -> None:
        """Tell a file's content; nothing where there is no file."""
        try:
            fd, name = above(self.fd, path)
            try:
                inner = _open_file(fd, name)
            finally:
                os.close(fd)
        except OSError:
            return
        with os.fdopen(inner, "rb") as file:
            if not stat.S_ISREG(os.fstat(inner).st_mode):
                return
            while len(data := file.read(PIECE)) == PIECE:
                self._pipe.tell({"path": path}, data)
            self._pipe.tell({"path": path, "now": _seen(path, os.fstat(inner))}, data)

    def take(self, step: dict[str, Any], data: bytes) -> None:
        """Make one change."""
        try:
            fd, name = above(self.fd, step["path"], change=True)
        except (FileNotFoundError, NotADirectoryError):
            if step["do"] != "remove":
                raise
            return
        try:
            _take(fd, name, step, data)
        finally:
            os.close(fd)


def above(root: int, path: str, *, change: bool = False) -> tuple[int, str]:
    """A descriptor of the directory that a path is in, and its name there.

    With `change`, each on the way is opened to its owner: what it is to be is set when all below is made.
    """
    *parents, name = path.split("/")
    fd = os.dup(root)
    for parent in parents:
        try:
            inner = _open_dir(fd, parent, change=change)
        finally:
            os.close(fd)
        fd = inner
    return fd, name


def _open_dir(fd: int, name: str, *, change: bool) -> int:
    try:
        inner = os.open(name, _DIRECTORY, dir_fd=fd)
    except PermissionError:
        if not change:
            raise
        os.chmod(name, 0o700, dir_fd=fd)
        return os.open(name, _DIRECTORY, dir_fd=fd)
    mode = os.fstat(inner).st_mode & 0o7777
    if change and mode & 0o700 != 0o700:
        os.fchmod(inner, mode | 0o700)
    return inner


def _open_file(fd: int, name: str) -> int:
    """A file, to be read; one of ours that its mode closes to us is opened for the moment."""
    try:
        return os.open(name, _FILE, dir_fd=fd)
    except PermissionError:
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise
        os.chmod(name, mode & 0o7777 | 0o400, dir_fd=fd)
        try:
            return os.open(name, _FILE, dir_fd=fd)
        finally:
            os.chmod(name, mode & 0o7777, dir_fd=fd)


def _look(fd: int, path: str, into: dict[str, list[object]], depth: int) -> None:
    """What is in a directory: path, kind, mode, mtime, ctime, inode, size, target."""
    for name in sorted(os.listdir(fd)):
        at = f"{path}/{name}" if path else name
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if at == "lost+found" and found.st_uid != os.geteuid():  # of the volume's file system
                continue
            mode, mtime = found.st_mode & 0o7777, found.st_mtime_ns
            if stat.S_ISLNK(found.st_mode):
                into[at] = [at, "link", 0, mtime, 0, 0, 0, os.readlink(name, dir_fd=fd)]
            elif stat.S_ISREG(found.st_mode):
                into[at] = _seen(at, found)
            elif stat.S_ISDIR(found.st_mode) and depth < _DEEPEST:
                inner = opened(fd, name, found)
                try:
                    into[at] = [at, "dir", mode, mtime, 0, 0, 0, ""]
                    _look(inner, at, into, depth + 1)
                finally:
                    closed(fd, name, inner, found)
            else:
                into[at] = [at, "other", 0, 0, 0, 0, 0, ""]
        except FileNotFoundError:  # it went while we looked
            continue
        except PermissionError:  # another user's
            into[at] = [at, "other", 0, 0, 0, 0, 0, ""]


def _seen(path: str, found: os.stat_result) -> list[object]:
    """What is said of a file."""
    times = [found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size]
    return [path, "file", found.st_mode & 0o7777, *times, ""]


def opened(fd: int, name: str, found: os.stat_result) -> int:
    """A directory, made readable where its owner may not look into it."""
    if found.st_mode & 0o700 != 0o700:
        os.chmod(name, found.st_mode & 0o7777 | 0o700, dir_fd=fd)
    return os.open(name, _DIRECTORY, dir_fd=fd)


def closed(fd: int, name: str, inner: int, found: os.stat_result) -> None:
    """As it was before `opened`."""
    os.close(inner)
    if found.st_mode & 0o700 != 0o700:
        os.chmod(name, found.st_mode & 0o7777, dir_fd=fd)


def _take(fd: int, name: str, step: dict[str, Any], data: bytes) -> None:
    do = step["do"]
    if do == "remove":
        remove(fd, name)
    elif do == "dir":
        os.mkdir(name, 0o700, dir_fd=fd)
    elif do == "link":
        os.symlink(data, name, dir_fd=fd)
        os.utime(name, ns=(step["mtime_ns"], step["mtime_ns"]), dir_fd=fd, follow_symlinks=False)
    elif do == "meta":
        inner = _open_file(fd, name)
        os.fchmod(inner, step["mode"])
        os.utime(inner, ns=(step["mtime_ns"], step["mtime_ns"]))
        os.close(inner)
    else:
        write(fd, name, data, fresh=do == "file")


def write(fd: int, name: str, data: bytes, *, fresh: bool) -> None:
    """Begin a file anew, or add to it."""
    if fresh:
        try:
            os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            fresh = True
    how = os.O_CREAT | os.O_EXCL if fresh else os.O_APPEND
    inner = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600, dir_fd=fd)
    with os.fdopen(inner, "wb") as file:
        file.write(data)


def remove(fd: int, name: str) -> None:
    """Whatever stands there, with all below; nothing where nothing does."""
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=fd)
        return
    inner = opened(fd, name, found)
    try:
        for one in os.listdir(inner):
            remove(inner, one)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=fd)


def answer(pipe: Pipe, tree: Tree, asked: dict[str, Any]) -> None:
    """Do what is asked."""
    if asked["do"] == "scan":
        tree.scan(asked["since"])
    elif asked["do"] == "read":
        for path in asked["paths"]:
            tree.read(path)
    else:
        step, data = pipe.hear()
        while step["do"] != "done":
            tree.take(step, data)
            step, data = pipe.hear()


def main(window: str, *directories: str) -> None:
    """Run with this process's arguments, until standard input ends."""
    pipe = Pipe(int(window))
    trees: list[Tree] = [Tree(path, pipe) for path in directories]
    while True:
        asked = pipe.asked()
        try:
            answer(pipe, trees[int(asked["of"])], asked)
        except (OSError, RecursionError) as wrong:
            said = wrong.strerror if isinstance(wrong, OSError) else "it is nested too deep"
            pipe.tell({"error": f"{said} {getattr(wrong, 'filename', None) or ''}".strip()})
            pipe.flush()
            if asked["do"] == "apply":
                sys.exit(1)
        else:
            pipe.tell({"end": 1})
            pipe.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
