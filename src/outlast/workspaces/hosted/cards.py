"""What this machine knows of hosted sandboxes: no client lists them, or finds one by a name.

One file for each box, below the worker's data directory: its ref, its labels, and the newest fence that held it from
here. A worker of another machine finds a box by the ref that the session's log has.
"""

import fcntl
import json
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from outlast.clock import Clock
from outlast.errors import Fenced
from outlast.folders import make_private
from outlast.ids import derived_id
from outlast.sandbox import Ref, Spec

_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Card:
    """A box, as it was when it was last held from here."""

    ref: Ref
    name: str
    labels: Mapping[str, str]
    born_s: float
    fence: int


class Cards:
    """The files of one hosting."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def find(self, name: str) -> Card | None:
        """What is known of the box of a name."""
        return self._read(self._path(name))

    def all(self) -> Iterator[Card]:
        """Of every box."""
        for path in sorted(self._folder.glob("*.json")):
            if (card := self._read(path)) is not None:
                yield card

    def check_fence(self, name: str, fence: int) -> None:
        """Raises `Fenced`: a newer fence has held the box from here."""
        card = self.find(name)
        if card is not None and card.fence > fence:
            raise Fenced(session=name, current=card.fence, fence=fence)

    def write(self, ref: Ref, spec: Spec, fence: int) -> None:
        """This fence holds the box now."""
        known = self.find(spec.name)
        born_s = known.born_s if known is not None and known.ref == ref else self._clock.now()
        said = {"ref": ref, "name": spec.name, "labels": dict(spec.labels), "born_s": born_s, "fence": fence}
        path = self._path(spec.name)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(said), encoding="utf-8")
        fresh.replace(path)

    def forget(self, ref: Ref) -> None:
        """The box is gone; what is known of another one in its place stays."""
        card = self.find(str(ref["box"]))
        if card is not None and card.ref == ref:
            self._path(card.name).unlink(missing_ok=True)

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Nobody else of this machine makes the box of this name meanwhile."""
        make_private(self._folder)
        fd = os.open(self._path(name).with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await anyio.sleep(_LOOK_S)
            yield
        finally:
            os.close(fd)

    def _path(self, name: str) -> Path:
        return self._folder / f"{derived_id('box', name.encode())}.json"

    @staticmethod
    def _read(path: Path) -> Card | None:
        try:
            said: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return Card(said["ref"], said["name"], said["labels"], said["born_s"], said["fence"])
        except (OSError, ValueError, KeyError):
            return None
