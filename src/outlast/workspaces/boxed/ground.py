"""What of the worker's machine a box is given: the files, the home, and the programs of harnesses."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyio import to_thread

from outlast.folders import make_private
from outlast.ids import derived_id
from outlast.sandbox import Mount
from outlast.settings import read_settings
from outlast.workspace import Stay
from outlast.workspaces.drive.folder import on_disk
from outlast.workspaces.drive.format import DEPTH_LIMIT

SANDBOXES: Final = "sandboxes"
WAYS: Final = "ways"
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store")
"""What a box of the worker's own machine shows of it anyway."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MINE: Final = 0o700
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNSEEN: Final = (
    "the sandbox of this session does not show {program}. Install it with `outlast install`, where sandboxes see it, "
    "or name its directory: sandbox(reads=[…])"
)


@dataclass(frozen=True, slots=True)
class Ground:
    """Directories of one session on this machine."""

    directory: Path
    """Its own, for nobody else."""
    home: Path
    reads: tuple[Path, ...]
    owner: tuple[int, int] | None
    """Whose the files must be that a box may write; None: the worker's own."""

    @property
    def files(self) -> Path:
        """Mounted as the workspace."""
        return self.directory / "files"

    @property
    def way_out(self) -> Path:
        """Of sockets, and what else is kept of the way out."""
        return way_of(self.directory.parents[1], self.directory.name)

    @property
    def known(self) -> Path:
        """What is known of the files."""
        return self.directory / "known"

    @property
    def mark(self) -> Path:
        """Says which root the files come from."""
        return self.directory / "root"

    @property
    def held(self) -> Path:
        """Says in which attempts its calls worked on these files, since they were last laid out: a fence a line."""
        return self.directory / "held"

    @property
    def path(self) -> str:
        """PATH inside."""
        own = [str(one / "bin") for one in self.reads if (one / "bin").is_dir()]
        return os.pathsep.join([*own, SYSTEM_PATH])

    def mounts(self, cwd: str) -> Sequence[Mount]:
        return [
            Mount(self.files, cwd, writable=True),
            Mount(self.home, str(self.home), writable=True),
            *(Mount(one, str(one)) for one in self.reads),
        ]

    def shows(self, program: str) -> bool:
        """Whether a program stands inside at the path that it has here."""
        if "/" not in program:
            return True
        # Through links as well: what a link leads to must be there too.
        seen = [*map(Path, SYSTEM), *self.reads, Path(sys.base_prefix).resolve(), self.home]
        ways = (Path(os.path.normpath(program)), Path(os.path.realpath(program)))
        return all(any(way.is_relative_to(one) for one in seen) for way in ways)

    def unseen(self, program: str) -> str:
        """What to do about a program that is not shown."""
        return UNSEEN.format(program=program)

    async def make(self, *, mounts: bool) -> None:
        """Make the directories; with `mounts` those also that a box is given."""
        await to_thread.run_sync(self._make, mounts)

    def _make(self, mounts: bool) -> None:  # noqa: FBT001 - of a thread, which takes no names
        with on_disk(f"The directories of the sandbox at {self.directory} cannot be made"):
            self._made(mounts)

    def _made(self, mounts: bool) -> None:  # noqa: FBT001 - as above
        make_private(self.directory)
        make_private(self.home)
        if self.home.stat().st_mode & _MINE != _MINE:  # a box may have closed it, to us as well
            self.home.chmod(_MINE)
        if mounts:
            make_private(self.files)
            self.own(self.files)
            self.own(self.home)

    async def give_home(self) -> None:
        """Whatever was put into the home is the box's to read and change."""
        await to_thread.run_sync(self.own, self.home)

    async def fetch_home(self) -> None:
        """It is one directory, here and there."""

    def own(self, top: Path) -> None:
        """Give a directory with all that is in it to whose processes the box holds. Links are not followed."""
        if self.owner is None:
            return
        fd = os.open(top, _DIRECTORY)
        try:
            os.fchown(fd, *self.owner)
            _give(fd, self.owner, DEPTH_LIMIT)
        finally:
            os.close(fd)


def _give(fd: int, owner: tuple[int, int], deeper: int) -> None:
    """Give what is in a directory, so deep as anything can be that we put there; what lies deeper is its owner's own.

    Whoever owns it may change it meanwhile: what is gone since, or is a link by now, is passed over.
    """
    with os.scandir(fd) as entries:
        found = list(entries)
    for entry in found:
        with suppress(FileNotFoundError, NotADirectoryError):
            seen = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
            if seen.st_uid != owner[0]:
                os.chown(entry.name, *owner, dir_fd=fd, follow_symlinks=False)
            if deeper and stat.S_ISDIR(seen.st_mode):
                inner = os.open(entry.name, _DIRECTORY, dir_fd=fd)
                try:
                    _give(inner, owner, deeper - 1)
                finally:
                    os.close(inner)


def way_of(data: Path, folder: str) -> Path:
    """Where what is kept of a session's way out stands: at a short path, whatever the session is called."""
    return data / WAYS / derived_id("w", folder.encode())


def ground_of(stay: Stay, reads: Sequence[str], owner: tuple[int, int] | None) -> Ground:
    """Where a session's sandbox stands on this machine."""
    # Hooks of harnesses are run by our own Python, with our own code.
    wanted = [Path(sys.prefix), Path(__file__).parents[2], read_settings().harnesses, *map(Path, reads)]
    real = [one for one in dict.fromkeys(wanted) if one.is_dir() and not _in_system(one)]
    # What lies in another of them is shown by that.
    outer = [one for one in real if not any(one != other and one.is_relative_to(other) for other in real)]
    directory = stay.data.absolute() / SANDBOXES / stay.folder
    shown = outer if owner is None else [one for each in outer for one in _open_to_all(each)]
    return Ground(directory, stay.home, tuple(shown), owner)


def _open_to_all(path: Path, depth: int = 2) -> Iterator[Path]:
    """What can be shown to another user: a directory, or where only we may enter it what is in it."""
    mode = path.stat().st_mode
    if not stat.S_ISDIR(mode) or mode & 0o005 == 0o005:
        yield path
    elif depth:
        for below in sorted(path.iterdir()):
            if not below.is_symlink():
                yield from _open_to_all(below, depth - 1)


def _in_system(path: Path) -> bool:
    return any(path.is_relative_to(one) for one in SYSTEM)
