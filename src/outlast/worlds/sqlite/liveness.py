"""The rows that say which workers live: a file each, beside the database and behind no lock at all.

The deadline is the file's modification time. Setting it is one atomic system call that needs no room on the disk and
waits for nobody: a worker that hangs, is stopped, or fills the disk cannot keep another from renewing. The text in the
file (id and holder) is put in place whole.

Races. A claim reads the deadline within its transaction; the worker may renew just after it was read as run out. Then
both believe in their lease until the worker's next write, which the raised fence refuses. That is enough: effects are
bounded by the worker's own supervisor, which ends it at the deadline that the claim saw.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from outlast.clock import Clock
from outlast.ids import digest
from outlast.world import WorkerRow
from outlast.worlds.sqlite.failures import unavailable

_NS: Final = 1_000_000_000


class WorkerFiles:
    """The directory of worker rows, to be read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, worker: str) -> Path:
        """Where the row of `worker` lies; ids may be any text."""
        return self._directory / digest(worker.encode())

    def deadline(self, worker: str) -> float:
        """Unix time up to which the leases of `worker` stand; 0 if it has no row."""
        try:
            return os.stat(self.path(worker)).st_mtime_ns / _NS  # noqa: PTH116 it is on the path of every claim
        except FileNotFoundError:
            return 0.0

    def rows(self) -> Iterator[WorkerRow]:
        """Every row. One that ends meanwhile may be left out, and one that a power loss has torn is."""
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            if path.suffix:
                continue  # being written
            try:
                facts = json.loads(path.read_text(encoding="utf-8"))
                yield WorkerRow(facts["worker"], facts["holder"], path.stat().st_mtime_ns / _NS)
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue  # a claim reads the deadline alone, which is not in the text

    def forget(self, worker: str) -> None:
        """Remove a row."""
        self.path(worker).unlink(missing_ok=True)


class SqliteLiveness:
    """A worker's handle on its row. Belongs to one thread, any."""

    def __init__(self, world: str, directory: Path, clock: Clock, retired: Callable[[], None]) -> None:
        self._world = world
        self._directory = directory
        self._files = WorkerFiles(directory)
        self._clock = clock
        self._retired = retired
        self._written: WorkerRow | None = None

    def renew(self, row: WorkerRow, ttl_s: float) -> float:
        """See `outlast.world.Liveness`."""
        now = self._clock.now()
        until = int((now + ttl_s) * _NS)
        path = self._files.path(row.worker)
        try:
            if self._written is None or (self._written.worker, self._written.holder) != (
                row.worker,
                row.holder,
            ):
                self._write(path, row, until)
            else:
                try:
                    os.utime(path, ns=(until, until))
                except FileNotFoundError:
                    self._write(path, row, until)
            # What the file system kept may be coarser than what it was given.
            return min(ttl_s, path.stat().st_mtime_ns / _NS - now)
        except OSError as error:
            raise unavailable(self._world, error) from error

    def _write(self, path: Path, row: WorkerRow, until: int) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        with suppress(FileNotFoundError):
            fresh.unlink()
        text = json.dumps({"worker": row.worker, "holder": row.holder})
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.utime(fresh, ns=(until, until))
        fresh.replace(path)
        self._written = row

    def retire(self, worker: str) -> None:
        """See `outlast.world.Liveness`."""
        try:
            self._files.forget(worker)
        except OSError as error:
            raise unavailable(self._world, error) from error
        self._retired()

    def close(self) -> None:
        """See `outlast.world.Liveness`."""
