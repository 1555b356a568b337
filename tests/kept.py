"""Sessions whose files are in the log, written by hand: no worker and no workspace is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outlast.codec import Packer, encode_records, record_refs
from outlast.drive import Entry
from outlast.records import (
    FORMAT,
    AnyRecord,
    FilesKept,
    Payload,
    PromptQueued,
    SessionOpened,
    TurnOpened,
    TurnSettled,
)
from outlast.sites import WorldPacks
from outlast.workspaces.drive import Drive, Edit
from outlast.world import Header, World
from outlast.world.commit import make_commit

WORKSPACE = {"kind": "virtual", "checkpoint": "turn"}


def text_edits(files: Mapping[str, str | bytes | None], mtime_ns: int = 1_000_000_000) -> list[Edit]:
    """Files by their paths; None: removed."""
    edits: list[Edit] = []
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        entry = None if data is None else Entry(path, "file", 0o644, mtime_ns=mtime_ns)
        edits.append(Edit(path, entry, data))
    return edits


@dataclass
class Kept:
    """One session, and what its log has so far."""

    world: World
    session: str
    root: str = ""
    turn: int = 0
    seq: int = 0
    marks: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of commits, by name."""

    def __post_init__(self) -> None:
        self.drive = Drive(WorldPacks(self.world, self.session), self.world.tenant)

    async def open(self, workspace: Mapping[str, object] = WORKSPACE, cwd: str = "") -> None:
        opened = SessionOpened(
            self.session,
            "tester",
            "python",
            workspace=dict(workspace),
            cwd=cwd,
            folder=f"{self.session}-folder",
        )
        await self.world.create(
            self.session, self._commit([opened], Packer("default", set())), agent="tester"
        )
        self.seq = 1

    async def play(self, *steps: Mapping[str, str | bytes | None] | Sequence[Edit]) -> None:
        """A turn that keeps its files when it begins, after each step, and is over then."""
        prompt = await self.begin()
        for step in steps:
            await self.keep(*(text_edits(step) if isinstance(step, Mapping) else step))
        await self._put([TurnSettled(self.turn, "done", prompt)], Packer("default", set()))

    async def begin(self) -> Payload:
        """A turn is open; returns its prompt."""
        self.turn += 1
        packer = Packer("default", set())
        prompt = packer.payload(f"turn {self.turn}", what="it")
        name = f"in-{self.turn}"
        opening: list[AnyRecord] = [PromptQueued(name, prompt), TurnOpened(self.turn, name, prompt)]
        await self._put([*opening, FilesKept(self.root, self.turn, "begin")], packer)
        self.marks[f"begin {self.turn}"] = self.seq
        return prompt

    async def keep(self, *edits: Edit) -> None:
        """The files are otherwise."""
        capture = await self.drive.edit(self.root, edits)
        packer = Packer("default", set())
        assert [packer.blob(pack) for pack in capture.packs.values()] == list(capture.packs)
        self.root = capture.root
        await self._put([FilesKept(self.root, self.turn, "end", changed=tuple(capture.changed))], packer)
        self.drive.captured(capture.root)

    async def by_hand(self, files: Mapping[str, str | bytes | None]) -> None:
        """Between two turns somebody else changes files: the next one begins with that."""
        capture = await self.drive.edit(self.root, text_edits(files))
        packer = Packer("default", set())
        for pack in capture.packs.values():
            packer.blob(pack)
        self.root = capture.root
        await self._put([], packer)
        self.drive.captured(capture.root)

    async def _put(self, records: list[AnyRecord], packer: Packer) -> None:
        await self.world.commit_idle(self.session, self._commit(records, packer))
        self.seq += 1

    def _commit(self, records: list[AnyRecord], packer: Packer):  # noqa: ANN202 - a Commit
        refs = tuple(dict.fromkeys((*record_refs(records), *packer.blobs)))
        header = Header(self.seq + 1, 0, FORMAT, len(records), refs=refs)
        return make_commit(header, encode_records(records), packer.blobs)
