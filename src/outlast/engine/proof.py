"""Proof that a process tree is dead, by the lock that its supervisor alone held.

Why it can be trusted: a supervisor takes its lock before the lock gets its name, uses a name once, and
writes `"dead": true` into the file only when it has no child left, living or dead. So a prover needs the
file (made by nobody but a supervisor), its lock free, and those words. A lock that is free without them
belonged to a supervisor that was itself killed: then the tree is proved dead by the supervisor around it,
or not at all.

Provers share the lock (LOCK_SH) for the moment of the look, so that any number of them see the same; nobody
takes it exclusively after its supervisor.
"""

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import anyio
import msgspec

from outlast.clock import Clock
from outlast.engine.machines import stat_fields
from outlast.ids import digest, new_id

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_NESTING: Final = 8


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease, as far as its death can be proved: a lock on a host. Text form: `host/lock`."""

    host: str
    """`host_id()` of the machine and boot on which it runs."""
    lock: str
    """Name of its supervisor's lock in the lock directory of that host."""

    def __post_init__(self) -> None:
        if not (_NAME.fullmatch(self.host) and _NAME.fullmatch(self.lock)):
            raise ValueError(
                f"{self.host!r}, {self.lock!r}: use letters, digits, '.', '_' and '-', no dot first"
            )

    def __str__(self) -> str:
        return f"{self.host}/{self.lock}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form.

        Raises:
            ValueError: it is not one.
        """
        host, _, lock = text.partition("/")
        return cls(host, lock)


class LockRecord(msgspec.Struct, frozen=True):
    """What a supervisor writes into its lock file."""

    pid: int
    start: int
    """Start time of that process, in clock ticks since boot."""
    within: str = ""
    """Name of the lock of the supervisor around it."""
    dead: bool | str = False
    """True: nothing of the tree is alive. `group`: killed as far as could be seen (macOS)."""
    why: str = ""
    status: int = 0


def host_id(root: Path = Path("/")) -> str:
    """Name this machine since its last start: the same text in all its processes, another after a reboot.

    The machine's id is hashed, since it is not meant to be shown. Where no boot id can be read the name is
    random: nothing is ever proved on such a host.
    """
    boot = _boot_id(root)
    if not boot:
        return new_id("unknown")
    machine = next((_read(root / path) for path in ("etc/machine-id", "var/lib/dbus/machine-id")), b"")
    return digest(b"outlast host", machine, boot)


def read_lock(path: Path) -> LockRecord | None:
    """What the lock file at `path` says now, held or not; None if it says nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=LockRecord)
    except (OSError, msgspec.DecodeError):
        return None


def prove_dead(lock_dir: Path, holder: Holder, *, here: str | None = None) -> bool:
    """Return True only if everything that `holder` ever started is dead.

    False says nothing: it lives, or it ran on another host, or the proof is missing. Creates and changes no
    file, and is in nobody's way.

    Args:
        lock_dir: where the supervisors of this host keep their locks.
        holder: as the lease names it.
        here: `host_id()` of this process, when it is known.
    """
    return holder.host == (here or host_id()) and _is_dead(lock_dir, holder.lock)


async def watch_death(
    lock_dir: Path, holder: Holder, *, here: str | None = None, poll_s: float = 0.05
) -> None:
    """Return as soon as `prove_dead` holds; wait for ever where it never will.

    The supervisor's process is watched by the kernel (pidfd). Where that is not possible the lock is looked
    at each `poll_s` seconds.
    """
    if holder.host != (here or host_id()):
        await anyio.sleep_forever()
    noticed = False
    while not _is_dead(lock_dir, holder.lock):
        pidfd = None if noticed else _open_pidfd(read_lock(lock_dir / holder.lock))
        if pidfd is None:
            await anyio.sleep(poll_s)
            continue
        try:
            # The slow look behind it: in another pid namespace, that pid may be another process.
            with anyio.move_on_after(1.0):
                await anyio.wait_readable(pidfd)
                noticed = True
        finally:
            os.close(pidfd)


async def sweep_locks(
    lock_dir: Path,
    *,
    older_than_s: float,
    keep: Callable[[], Awaitable[Collection[str]]],
    clock: Clock,
) -> list[str]:
    """Remove the lock files of the dead that nobody needs as proof. Returns their names.

    `keep` is asked after the dead were found, and the dead take no new lease: whatever lease names one of
    them by then is in its answer. A lock is also kept when it proves the death of one that is.

    Args:
        lock_dir: where the supervisors of this host keep their locks.
        older_than_s: leave alone what died less than this long ago: longer than a commit may be on its way.
        keep: returns the names of all locks that a lease, or a row of a worker, still names.
        clock: tells the time by which files are dated.
    """
    born_before_s = clock.now() - older_than_s
    dead = _free_locks(lock_dir, born_before_s)
    needed = _with_enclosing(lock_dir, await keep())
    return [path.name for path in dead if path.name not in needed and _remove(path)]


def _is_dead(lock_dir: Path, lock: str) -> bool:
    for _ in range(_NESTING):
        record = _free_record(lock_dir / lock)
        if record is None:
            return False
        if record.dead is True:
            return True
        if not record.within:
            return False
        lock = record.within
    return False


def _free_record(path: Path) -> LockRecord | None:
    """The record of a lock that nobody holds. None: held, absent, or nothing sound in it."""
    text = _free_text(path)
    try:
        return None if text is None else msgspec.json.decode(text, type=LockRecord)
    except msgspec.DecodeError:
        return None


def _free_text(path: Path) -> bytes | None:
    """What stands in a lock that nobody holds. None: it is held, absent, or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)


def _free_locks(lock_dir: Path, born_before_s: float) -> list[Path]:
    return [
        path
        for path in sorted(lock_dir.iterdir())
        if _is_old(path, born_before_s) and _free_text(path) is not None
    ]


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False  # another sweep was faster, or it is not ours to remove
    return True


def _is_old(path: Path, born_before_s: float) -> bool:
    try:
        # A supervisor's last word dates the file: its age counts from the death.
        return path.lstat().st_mtime < born_before_s
    except OSError:
        return False


def _with_enclosing(lock_dir: Path, names: Iterable[str]) -> set[str]:
    needed: set[str] = set()
    rest = list(names)
    while rest:
        name = rest.pop()
        if name in needed:
            continue
        needed.add(name)
        record = read_lock(lock_dir / name)
        if record is not None and record.within:
            rest.append(record.within)
    return needed


def _open_pidfd(record: LockRecord | None) -> int | None:
    """A descriptor that becomes readable when the recorded process ends; None if it is not there."""
    if record is None or sys.platform != "linux":
        return None
    try:
        pidfd = os.pidfd_open(record.pid)
    except OSError:
        return None
    try:
        # Compared after opening: from here on the descriptor cannot mean a later process with that pid.
        same = int(stat_fields(record.pid)[19]) == record.start
    except (OSError, IndexError):
        same = False
    if not same:
        os.close(pidfd)
        return None
    return pidfd


def _boot_id(root: Path) -> bytes:
    if sys.platform == "darwin":
        return subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, check=False
        ).stdout.strip()
    return _read(root / "proc/sys/kernel/random/boot_id")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError:
        return b""
