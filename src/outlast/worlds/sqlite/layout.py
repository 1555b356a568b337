"""The files of a World, and whether what is found there can be used; nothing foreign is touched."""

import os
import struct
import warnings
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import apsw

from outlast.errors import WorldForeign, WorldReadOnly, WorldTooNew, WorldTooOld, WorldUnavailable
from outlast.folders import make_private
from outlast.worlds.sqlite.database import connect
from outlast.worlds.sqlite.failures import unavailable
from outlast.worlds.sqlite.mutex import Mutex

APPLICATION_ID: Final = 0x6F75746C  # "outl"
LAYOUT: Final = 2
"""Of `schema.sql`. Whoever changes that raises this: a file of another layout is refused, not misread."""
MAGIC: Final = b"SQLite format 3\x00"
SAFE_SQLITE: Final = 3_051_003
"""From 3.7.0 to 3.51.2 a WAL that is reset while two connections write or checkpoint can corrupt the file."""
NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "lustre", "afs"}
)


class UnsafeFileSystem(UserWarning):
    """The World lies on a file system over which SQLite's locks cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything of a World lies: beside its database."""

    database: Path
    lock: Path
    workers: Path
    hints: Path

    @classmethod
    def beside(cls, database: Path) -> "Files":
        """The files of the World whose database is `database`."""
        # Links are followed, as SQLite does: two names of one database must not have two locks and two sets of workers.
        database = database.expanduser().resolve()
        at = database.parent
        name = database.name
        return cls(database, at / f"{name}-lock", at / f"{name}-workers", at / f"{name}-hints")

    @property
    def name(self) -> str:
        """What a person calls the World."""
        return f"sqlite:{self.database}"

    def identity(self) -> tuple[int, int]:
        """Which file the database is now; (0, 0) if there is none."""
        try:
            found = os.stat(self.database)  # noqa: PTH116 it is on the path of every commit
        except FileNotFoundError:
            return 0, 0
        return found.st_dev, found.st_ino

    def check_identity(self, opened: tuple[int, int]) -> None:
        """Return if the database is still the file that was opened: what is written to another is written to nowhere.

        Raises:
            WorldUnavailable
        """
        if self.identity() != opened:
            raise WorldUnavailable(
                world=self.name, reason="its file was removed or replaced while it was open"
            )


@dataclass(frozen=True, slots=True)
class Access:
    """What this process may do with the files."""

    read_only: str
    """Why it cannot be written; empty if it can."""


def prepare(files: Files) -> Access:
    """Make the World if nothing is there, and tell what may be done with it.

    Raises:
        WorldForeign: there is something else, or half of something.
        WorldTooNew: a newer outlast made it.
        WorldTooOld: one from before the first release did.
        WorldReadOnly: there is nothing and nothing can be made.
        WorldUnavailable: this machine's SQLite is unsafe, or the system refuses.
    """
    if apsw.SQLITE_VERSION_NUMBER < SAFE_SQLITE:
        reason = f"SQLite {apsw.sqlite_lib_version()} can corrupt it; install apsw 3.51.3 or newer"
        raise WorldUnavailable(world=files.name, reason=reason)
    try:
        if _is_empty(files.database):
            _make(files)
        check(files)
    except (OSError, apsw.Error) as error:
        raise unavailable(files.name, error) from error
    _warn_of_network(files)
    return Access(_why_read_only(files))


def check(files: Files) -> None:
    """Return if the database is a World of this layout, as far as its first page tells.

    Only bytes are read: opening it with SQLite could already change something beside it.

    Raises:
        WorldForeign, WorldTooNew, WorldTooOld
    """
    size = files.database.stat().st_size
    with files.database.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(MAGIC):
        raise WorldForeign(world=files.name, reason="it is no SQLite database")
    layout, application = struct.unpack_from(">I4xI", head, 60)
    if application != APPLICATION_ID:
        raise WorldForeign(world=files.name, reason="it is another program's SQLite database")
    if layout > LAYOUT:
        raise WorldTooNew(world=files.name, found=layout, known=LAYOUT)
    if layout < LAYOUT:
        remedy = "move the file away with all that begins with its name"
        raise WorldTooOld(world=files.name, found=layout, needed=LAYOUT, remedy=remedy)
    [pages] = struct.unpack_from(">I", head, 28)
    page = struct.unpack_from(">H", head, 16)[0] or 65536
    page = 65536 if page == 1 else page
    # With a WAL the newest pages may stand there alone; without one every page must be in the file.
    if size < pages * page and _is_empty(Path(f"{files.database}-wal")):
        raise WorldForeign(
            world=files.name, reason=f"it is torn: {size // page} of its {pages} pages are there"
        )


def _make(files: Files) -> None:
    """Build the database under another name and put it in place whole: nobody ever sees half of it."""
    at = files.database.parent
    make_private(at)
    if not os.access(at, os.W_OK | os.X_OK):
        raise WorldReadOnly(world=files.name, reason=f"nothing can be made in {at}")
    mutex = Mutex(files.lock)
    try:
        with mutex:
            if not _is_empty(files.database):
                return
            fresh = Path(f"{files.database}-new")
            fresh.unlink(missing_ok=True)
            os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            _build(fresh)
            fresh.replace(files.database)
            directory = os.open(at, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
    finally:
        mutex.close()


def _build(path: Path) -> None:
    schema = resources.files("outlast.worlds.sqlite").joinpath("schema.sql").read_text(encoding="utf-8")
    database = connect(str(path))
    try:
        # 4 KiB pages: a body of 4 KB fills one overflow page, and a commit dirties little else.
        database.execute("pragma page_size = 4096")
        database.execute(f"begin immediate; {schema}; commit")
        database.execute(f"pragma application_id = {APPLICATION_ID}; pragma user_version = {LAYOUT}")
        database.execute("pragma journal_mode = wal")
    finally:
        database.close()


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True


def _why_read_only(files: Files) -> str:
    if not os.access(files.database, os.R_OK):
        raise WorldUnavailable(world=files.name, reason="this user may not read it")
    if not os.access(files.database, os.W_OK):
        return "this user may only read the file"
    if not os.access(files.database.parent, os.W_OK | os.X_OK):
        return "this user may not write in its directory"
    return ""


def file_system(mounts: list[str], path: Path) -> str:
    """The type of the file system that `path` lies on, by the lines of `/proc/self/mountinfo`."""
    best, kind = "", ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        mount = left.split()[4].replace("\\040", " ")
        # Of two at one place the later covers the earlier.
        if len(mount) >= len(best) and path.is_relative_to(mount):
            best, kind = mount, right.split()[0]
    return kind


def _warn_of_network(files: Files) -> None:
    """Warn where SQLite's locks or shared memory do not work between machines."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return  # no Linux: nothing is known
    kind = file_system(mounts, files.database)
    if kind in NETWORK:
        text = f"{files.name} lies on {kind}. Locks do not hold there between machines: use it from one only."
        warnings.warn(text, UnsafeFileSystem, stacklevel=4)
