"""A process that writes a directory down, or brings it back, until it is killed: `python -m tests.crash.drives`."""

import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio

from outlast.drive import EMPTY_ROOT
from outlast.workspaces.drive import Drive, Folder, open_store


class Place:
    """What one process leaves to the next, in one directory."""

    def __init__(self, top: Path) -> None:
        self.work = top / "work"
        self.store = open_store(str(top / "store"))
        self.cache = top / "cache"
        self._roots = top / "roots"

    def drive(self) -> Drive:
        return Drive(self.store, "default", put=self._put)

    def folder(self, drive: Drive) -> Folder:
        return Folder(drive, self.work, self.cache)

    async def _put(self, packs: Mapping[str, bytes]) -> None:
        await self.store.put_many(packs, session="s", fence=1)

    def commit(self, root: str) -> None:
        """Durable, as a commit of the log is."""
        with self._roots.open("a", encoding="ascii") as roots:
            roots.write(f"{root}\n")

    def roots(self) -> list[str]:
        """Those that were committed whole."""
        if not self._roots.exists():
            return [EMPTY_ROOT]
        return [EMPTY_ROOT, *self._roots.read_text("ascii").split("\n")[:-1]]


def change(work: Path, rnd: random.Random) -> None:
    """As an agent does it: some files are new, some other, some gone."""
    for _ in range(30):
        path = work / f"d{rnd.randrange(5)}" / f"f{rnd.randrange(80)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        match rnd.randrange(4):
            case 0:
                path.unlink(missing_ok=True)
            case 1 if not path.exists() and not path.is_symlink():
                path.symlink_to("elsewhere")
            case 2 if path.exists() and not path.is_symlink():
                path.chmod(rnd.choice([0o644, 0o600, 0o755]))
            case _ if not path.is_symlink():
                path.write_bytes(rnd.randbytes(rnd.randrange(40_000)))
            case _:
                pass


def _say(root: str) -> None:
    sys.stdout.write(f"{root}\n")
    sys.stdout.flush()


async def _keep(place: Place, rnd: random.Random) -> None:
    drive = place.drive()
    folder = place.folder(drive)
    root = place.roots()[-1]
    while True:
        change(place.work, rnd)
        capture = await folder.checkpoint(root)
        root = capture.root
        place.commit(root)
        _say(root)


async def _bring_back(place: Place, rnd: random.Random) -> None:
    drive = place.drive()
    folder = place.folder(drive)
    roots = place.roots()
    while True:
        root = rnd.choice(roots)
        _say(root)
        await folder.restore(root)


if __name__ == "__main__":
    act = {"keep": _keep, "restore": _bring_back}[sys.argv[1]]
    os.umask(0o022)
    anyio.run(act, Place(Path(sys.argv[2])), random.Random(int(sys.argv[3])))
