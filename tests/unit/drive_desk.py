"""A directory, its drive and its cache."""

from pathlib import Path

from outlast.clock import ManualClock, SystemClock
from outlast.drive import EMPTY_ROOT, Capture
from outlast.workspaces.drive import Drive, Folder
from tests.trees import MemoryPacks

LATER = SystemClock().now() + 3600


class Desk:
    """A directory, its drive, and a clock by which all of its files are old."""

    def __init__(self, top: Path, packs: MemoryPacks | None = None) -> None:
        self.top = top
        self.at = top / "work"
        self.at.mkdir(parents=True, exist_ok=True)
        self.cache = top / "cache" / "stats"
        self.packs = packs or MemoryPacks()
        self.root = EMPTY_ROOT
        self.renew()

    def renew(self) -> None:
        """As in a new process."""
        self.drive = Drive(self.packs, "default")
        self.folder = Folder(self.drive, self.at, self.cache, clock=ManualClock(LATER))

    def write(self, path: str, data: bytes = b"x") -> None:
        (self.at / path).parent.mkdir(parents=True, exist_ok=True)
        (self.at / path).write_bytes(data)

    async def keep(self) -> Capture:
        capture = await self.folder.checkpoint(self.root)
        self.root = self.packs.land(self.drive, capture)
        return capture

    async def read(self, path: str) -> bytes:
        return await Drive(self.packs, "default").read(self.root, path)


def packed(capture: Capture) -> int:
    """Bytes of its packs."""
    return sum(map(len, capture.packs.values()))
