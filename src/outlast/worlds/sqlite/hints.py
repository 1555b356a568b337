"""Hints: who waits for what in this process, and datagrams between the processes on one file.

Each process that waits for anything binds a socket in the directory of hints. After a transaction has become durable,
its writer sends the keys of what changed to every socket there. A datagram that finds no room, a reader that sleeps, a
socket whose process is dead (it is removed) cost the writer nothing. Behind it stands a slow poll (`poll.py`).
"""

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from outlast.clock import Clock, SystemClock
from outlast.ids import new_id
from outlast.world.hints import Board, Hints

DATAGRAM_KEYS: Final = 256
PATH_LIMIT: Final = 100
"""Bytes of a socket's address: Linux takes 108, macOS 104."""
_SHORT: Final = Path("/proc/self/fd").exists()
SETTLED_S: Final = 0.1
"""Modification times of directories may be this coarse."""


class Switchboard(Board):
    """All subscriptions of this process to one World, and the socket on which other processes reach them."""

    def __init__(self, directory: Path, *, listen: bool) -> None:
        super().__init__()
        self._directory = directory
        self._listen = listen
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self.name = new_id("p").removeprefix("p-")
        """Of this process's socket."""

    def add(self, hints: Hints) -> None:
        """Begin to tell a subscription."""
        if self._listen and self._socket is None:
            try:
                self._socket = self._bind()
            except OSError:
                self._listen = False  # no room, no right: the poll must do
        super().add(hints)

    def close(self) -> None:
        """Close and remove the socket."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            with suppress(OSError):
                (self._directory / self.name).unlink()

    def _bind(self) -> socket.socket:
        """A socket of our own."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        directory = os.open(self._directory, os.O_RDONLY)
        fresh = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            fresh.bind(address_of(self._directory, directory, self.name))
        except OSError:
            fresh.close()
            raise
        finally:
            os.close(directory)
        fresh.setblocking(False)  # noqa: FBT003 its signature
        self._loop.add_reader(fresh, self._receive, fresh)
        return fresh

    def _receive(self, ours: socket.socket) -> None:
        keys: set[int] = set()
        with suppress(BlockingIOError):
            for _ in range(64):
                data = ours.recv(8 * DATAGRAM_KEYS)
                keys.update(struct.unpack(f"<{len(data) // 8}Q", data))
        self.tell(keys)


class Postman:
    """Sends keys to the other processes. Belongs to one thread."""

    def __init__(self, directory: Path, ours: str | None, clock: Clock | None = None) -> None:
        self._directory = directory
        self._ours = ours
        self._clock = clock or SystemClock()
        self._socket: socket.socket | None = None
        self._opened: int | None = None
        """The directory."""
        self._listed_ns = 0
        self._names: list[str] = []

    def send(self, keys: Iterable[int]) -> None:
        """Tell every other process; whoever cannot be told now finds out by its poll."""
        with suppress(OSError):
            self._send(keys)

    def _send(self, keys: Iterable[int]) -> None:
        names = self._others()
        if not names or self._opened is None:
            return
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)  # noqa: FBT003 its signature
        every = sorted(keys)
        for start in range(0, len(every), DATAGRAM_KEYS):
            part = every[start : start + DATAGRAM_KEYS]
            data = struct.pack(f"<{len(part)}Q", *part)
            for name in names:
                self._deliver(data, name)

    def close(self) -> None:
        """Let go of socket and directory."""
        if self._socket is not None:
            self._socket.close()
        self._forget()

    def _deliver(self, data: bytes, name: str) -> None:
        assert self._opened is not None
        assert self._socket is not None
        try:
            self._socket.sendto(data, address_of(self._directory, self._opened, name))
        except ConnectionRefusedError:
            # Nobody has it open: its process is dead. Names are never used twice.
            with suppress(OSError):
                os.unlink(name, dir_fd=self._opened)
        except OSError:
            pass  # gone, or full: a hint may be lost

    def _look(self) -> os.stat_result | None:
        """The directory, open, as it is now; None if there is none."""
        if self._opened is not None:
            there = os.fstat(self._opened)  # by descriptor: it is on the path of every commit
            if there.st_nlink:
                return there
            self._forget()  # it was removed, and may have been made anew
        try:
            self._opened = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        return os.fstat(self._opened)

    def _others(self) -> list[str]:
        there = self._look()
        if there is None or self._opened is None:
            return []
        if there.st_mtime_ns != self._listed_ns:
            names = os.listdir(self._opened)  # noqa: PTH208 a descriptor is no Path
            self._names = [name for name in names if name != self._ours]
            # A name that comes within the same tick of the file system's clock would never be noticed.
            settled = there.st_mtime_ns < (self._clock.now() - SETTLED_S) * 1e9
            self._listed_ns = there.st_mtime_ns if settled else 0
        return self._names

    def _forget(self) -> None:
        if self._opened is not None:
            os.close(self._opened)
        self._opened = None
        self._listed_ns = 0
        self._names = []


def address_of(directory: Path, descriptor: int, name: str) -> str:
    """The address of a socket in a directory that is open as `descriptor`.

    Raises:
        OSError: there is none short enough.
    """
    if _SHORT:
        return f"/proc/self/fd/{descriptor}/{name}"  # short, however long the path is
    address = str(directory / name)
    if len(os.fsencode(address)) > PATH_LIMIT:
        raise OSError(errno.ENAMETOOLONG, "no socket fits there", address)
    return address
