"""A workspace on paper: a small kind that keeps its files in memory, and knows commands of its own.

`append PATH TEXT`, `put PATH TEXT`, `cd PATH`, `cat PATH`; several, one a line. Each write takes two steps, so that
whoever looks in between sees half of it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.adapter import Agent, Gateway, Places, Processes
from outlast.drive import Capture, Entry
from outlast.engine.attempt import Surroundings
from outlast.errors import FileMissing, WorkspaceError
from outlast.fold import SessionState
from outlast.ids import blob_hash
from outlast.sites import Ground
from outlast.workspace import Command, Kind, Note, Ran, Stay, Undone
from outlast.world import World


@dataclass
class Paper:
    """The kind (`outlast.workspace.Kind`), and what it has seen."""

    programs: bool = False
    """Whether it passes for a machine, whose commands outlive a worker."""
    check: Callable[[], None] = lambda: None
    """Called before anything is done."""
    trouble: list[Exception] = field(default_factory=list[Exception])
    """Raised by the next captures, one each."""
    begun: Counter[str] = field(default_factory=Counter[str])
    """How often each command was begun, by its text."""
    jobs: dict[str, Ran | None] = field(default_factory=dict[str, Ran | None])
    """Of a machine: commands that were begun, and how they ended."""
    machine: dict[str, str] | None = None
    """The files of a machine that lives on."""
    where: str = ""
    """The directory that its shell is in."""
    undoes: Undone = ""
    """What it is sure to have undone of calls without an outcome."""
    captured: list[str] = field(default_factory=list[str])
    held: set[int] = field(default_factory=set[int])
    """The attempts that have worked with that machine."""
    padding: tuple[bytes, ...] = ()
    """Packs that every capture has beside its own."""

    @asynccontextmanager
    async def open(self, reference: Mapping[str, Any], stay: Stay) -> AsyncGenerator["PaperSite"]:
        files = await files_of(stay.root, stay.packs.get_many)
        if self.programs and self.machine is not None:
            files = self.machine
        else:
            self.where = str(stay.aside.get("cwd", ""))
            self.held = set()
        self.held.add(stay.fence)
        self.machine = files if self.programs else None
        yield PaperSite(self, stay, files)

    async def forget(self, reference: Mapping[str, Any], folder: str, data: Path) -> None:
        self.machine = None


class Scrap:
    """A workspace of this kind (`outlast.workspace.Workspace`)."""

    kind = "paper"
    placement = "any"
    isolated = True
    cwd = "/paper"

    def __init__(self, checkpoint: str = "call") -> None:
        self._checkpoint = checkpoint

    def reference(self) -> Mapping[str, Any]:
        return {"kind": "paper", "checkpoint": self._checkpoint}


async def files_of(root: str, get_many: Callable[[Sequence[str]], Any]) -> dict[str, str]:
    """What a root leads to."""
    return {} if not root else msgspec.json.decode((await get_many([root]))[root], type=dict[str, str])


class PaperSite:
    """See `outlast.workspace.Site`."""

    cwd = "/paper"

    def __init__(self, kind: Paper, stay: Stay, files: dict[str, str]) -> None:
        self._kind = kind
        self._stay = stay
        self.texts = files
        self.hosts_programs = kind.programs
        self.undoes = kind.undoes
        self.processes: Processes = stay.processes

    @property
    def files(self) -> "PaperSite":
        return self

    async def run(self, command: Command) -> Ran:
        self._kind.check()
        known = self._kind.jobs.get(command.job)
        if known is not None:
            return known
        if self.hosts_programs:
            self._kind.jobs[command.job] = None
        self._kind.begun[command.text] += 1
        said = [await self._line(*line.split(" ", 2)) for line in command.text.splitlines()]
        ran = Ran(0, "".join(said), "")
        if self.hosts_programs:
            self._kind.jobs[command.job] = ran
        return ran

    async def _line(self, word: str, path: str, text: str = "") -> str:
        match word:
            case "append":
                await self._put(path, self.texts.get(self._at(path), "") + text)
            case "put":
                await self._put(path, text)
            case "cd":
                self._kind.where = path
            case _:
                return self.texts[self._at(path)]
        return ""

    def _at(self, path: str) -> str:
        return f"{self._kind.where}/{path}" if self._kind.where else path

    async def _put(self, path: str, text: str) -> None:
        self.texts[self._at(path)] = f"{text[: len(text) // 2]} half"
        await asyncio.sleep(0)
        self._kind.check()
        self.texts[self._at(path)] = text

    def holds(self, fence: int) -> bool:
        return fence in self._kind.held

    async def knows(self, job: str) -> bool | None:
        return job in self._kind.jobs if self.hosts_programs else None

    async def capture(self) -> Capture:
        self._kind.check()
        if self._kind.trouble:
            raise self._kind.trouble.pop(0)
        aside: dict[str, object] = {"cwd": self._kind.where} if self._kind.where else {}
        if not self.texts:
            return Capture("", aside=aside)
        pack = msgspec.json.encode(self.texts, order="sorted")
        root = blob_hash(self._stay.tenant, pack)
        await asyncio.sleep(0)
        packs = {blob_hash(self._stay.tenant, one): one for one in (*self._kind.padding, pack)}
        return Capture(root, packs, sorted(self.texts), aside)

    def captured(self, root: str) -> None:
        self._kind.captured.append(root)

    async def read(self, path: str) -> bytes:
        if path not in self.texts:
            raise FileMissing(path=path)
        return self.texts[path].encode()

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        self._kind.check()
        if path.startswith("no"):
            raise WorkspaceError(detail=f"{path} cannot be written.")
        await self._put(path, data.decode())

    async def find(self, path: str) -> Entry | None:
        return Entry(path, "file", size=len(self.texts[path])) if path in self.texts else None

    async def list(self, path: str) -> Sequence[Entry]:
        return [Entry(name, "file", size=len(text)) for name, text in self.texts.items()]

    async def remove(self, path: str) -> None:
        self._kind.check()
        del self.texts[path]


def on_paper(
    world: World, kind: Paper | None, data: Path, *, beside: bool = False
) -> Callable[[SessionState, Agent, Note], Any]:
    """The surroundings of attempts whose workspaces are of this kind.

    Args:
        beside: they work in an empty directory beside the files (`outlast.offering`).
    """
    kinds: dict[str, Kind] = {} if kind is None else {"paper": kind}
    ground = Ground(data, cast("Gateway", None), cast("Processes", None), 60.0, kinds)

    @asynccontextmanager
    async def open_(state: SessionState, agent: Agent, note: Note) -> AsyncGenerator[Surroundings]:
        async with ground.open(world, state, agent, note) as around:
            assert around.places == Places(Path("/paper"), around.places.home) or beside
            yield around

    return open_
