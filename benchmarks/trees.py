"""Ways to keep a directory, each for the same directory: a drive, and programs that people use for it.

`python -m benchmarks.trees WORK TOP ROOT` checkpoints in a process of its own, and prints root and milliseconds.
"""

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from benchmarks.texts import random_text, source_text
from outlast.drive import EMPTY_ROOT
from outlast.workspaces.drive import Drive, Folder, open_store

FILES, BYTES, TOUCHED = 2_000, 25_000, 5
PACKAGES = {"git": "git", "restic": "restic", "tar": "tar", "zstd": "zstd"}
"""The Debian package of each program."""


def plant(work: Path) -> None:
    """2,000 files of 50 MB, four in five of source text, in a hundred directories."""
    parts, noise, rnd = list(islice(source_text(BYTES // 10), 2_000)), random_text(BYTES), random.Random(1)
    for number in range(FILES):
        path = work / f"part{number % 10}" / f"unit{number % 100}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = next(noise) if number % 5 == 0 else "".join(rnd.choices(parts, k=10))
        path.write_text(text, encoding="utf-8")


def touch(work: Path, turn: int) -> None:
    """Add a line to five files of different directories."""
    for number in range(TOUCHED):
        at = (turn * 37 + number * 411) % FILES
        path = work / f"part{at % 10}" / f"unit{at % 100}" / f"file{at}.py"
        with path.open("a", encoding="utf-8") as file:
            file.write(f"# touched in turn {turn}\n")


def weight(directory: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


class Keeper(ABC):
    """One way to keep a directory."""

    name = ""
    programs: tuple[str, ...] = ()

    def __init__(self, top: Path) -> None:
        for program in self.programs:
            if shutil.which(program) is None:
                raise RuntimeError(
                    f"{program} is not installed. Install it with: apt-get install {PACKAGES[program]}"
                )
        self.top = top
        self.store = top / "store"
        self.store.mkdir(parents=True)
        self.environ = {**os.environ, "HOME": str(top)}

    @abstractmethod
    def keep(self, work: Path) -> None:
        """Keep it as it is now."""

    @abstractmethod
    def bring_back(self, target: Path) -> None:
        """What was kept last, in an empty directory."""

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Run a program to its end."""
        done = subprocess.run(command, check=True, capture_output=True, env=self.environ, cwd=cwd, text=True)
        return done.stdout.strip()


class Git(Keeper):
    """A bare repository beside the directory, with an index of its own."""

    name, programs = "git", ("git",)

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.environ |= {"GIT_DIR": str(self.store), "GIT_INDEX_FILE": str(top / "index")}
        self.environ |= {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a"}
        self.environ |= {"GIT_COMMITTER_EMAIL": "a", "GIT_CONFIG_NOSYSTEM": "1"}
        self.run("git", "init", "--quiet", "--bare", str(self.store))
        self._tree = ""

    def keep(self, work: Path) -> None:
        self.run("git", f"--work-tree={work}", "add", "--all", ".", cwd=work)
        self._tree = self.run("git", "write-tree")
        commit = self.run("git", "commit-tree", "-m", "kept", self._tree)
        self.run("git", "update-ref", "refs/heads/kept", commit)

    def bring_back(self, target: Path) -> None:
        self.run("git", f"--work-tree={target}", "checkout-index", "--all", f"--prefix={target}/", cwd=target)


class Restic(Keeper):
    """A repository of restic, with its cache."""

    name, programs = "restic", ("restic",)

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.environ |= {"RESTIC_REPOSITORY": str(self.store), "RESTIC_PASSWORD": "x"}
        self.environ |= {"RESTIC_CACHE_DIR": str(top / "cache")}
        self.run("restic", "init", "--quiet")

    def keep(self, work: Path) -> None:
        self.run("restic", "backup", "--quiet", ".", cwd=work)

    def bring_back(self, target: Path) -> None:
        self.run("restic", "restore", "--quiet", "latest", "--target", str(target))


class Tar(Keeper):
    """One archive, made anew each time."""

    name, programs = "tar + zstd", ("tar", "zstd")

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self._number = 0

    def keep(self, work: Path) -> None:
        self._number += 1
        archive = self.store / f"{self._number}.tar.zst"
        self.run("tar", "--use-compress-program=zstd -3", "-cf", str(archive), ".", cwd=work)

    def bring_back(self, target: Path) -> None:
        archive = self.store / f"{self._number}.tar.zst"
        self.run("tar", "--use-compress-program=zstd -d", "-xf", str(archive), cwd=target)


class Ours:
    """A drive in a directory, in this process: what it gives is flushed to the disk, as a World does with it."""

    def __init__(self, top: Path) -> None:
        self.store = top / "store"
        self.cache = top / "cache"
        self.root = EMPTY_ROOT
        self._packs = open_store(str(self.store))
        self._folder: Folder | None = None

    def drive(self) -> Drive:
        """A drive that knows nothing yet."""
        return Drive(self._packs, "default", put=self._put)

    async def _put(self, packs: Mapping[str, bytes]) -> None:
        await self._packs.put_many(packs, session="bench", fence=1)

    async def keep(self, work: Path) -> None:
        """Keep it as it is now."""
        if self._folder is None:
            self._folder = Folder(self.drive(), work, self.cache)
        self.root = (await self._folder.checkpoint(self.root)).root

    async def bring_back(self, target: Path) -> None:
        """What was kept last, in an empty directory, by one who has nothing at hand."""
        await Folder(self.drive(), target, self.cache.with_name("other")).restore(self.root)
        self.cache.with_name("other").unlink()

    def keep_apart(self, work: Path) -> float:
        """The same in a process of its own; milliseconds, less its start."""
        command = [sys.executable, "-m", "benchmarks.trees", str(work), str(self.store.parent), self.root]
        root, took_ms = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        self.root = root
        self._folder = None
        return float(took_ms)


async def _alone(work: Path, top: Path, root: str) -> None:
    ours = Ours(top)
    ours.root = root
    began = time.perf_counter()
    await ours.keep(work)
    print(ours.root, (time.perf_counter() - began) * 1e3)


if __name__ == "__main__":
    asyncio.run(_alone(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
