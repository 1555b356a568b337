"""The files of a session as its log has them, without a worker and without bringing them back to anywhere."""

import difflib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from outlast.drive import Entry
from outlast.engine.load import load_state
from outlast.errors import CommitUnknown, NotFound, TurnUnknown
from outlast.fold import SessionState, records_of
from outlast.records import FilesKept
from outlast.session import Session
from outlast.sites import packs_of
from outlast.workspaces.drive import Change, Drive

Put: TypeAlias = Callable[[Mapping[str, bytes]], Awaitable[None]]
SHOWN_BYTES: Final = 1024 * 1024
"""Files that have more are not compared line by line."""
SHOWN_LINES: Final = 20_000
NOT_KEPT: Final = (
    "The log of {session} holds no files at commit {seq}: {why}. `outlast log {session}` shows when they were kept, as "
    "files_kept."
)


@dataclass(frozen=True, slots=True)
class Trees:
    """The trees that a session's log names."""

    session: Session
    drive: Drive

    @classmethod
    async def of(cls, session: Session, put: Put | None = None) -> "Trees":
        """Those of a session, wherever their packs are. Raises as `outlast.sites.packs_of` does.

        Args:
            put: makes new packs durable where those are, if that is a store of their own.
        """
        return cls(session, Drive(await packs_of(session.world, session.id), session.world.tenant, put=put))

    async def at(self, seq: int | None = None) -> SessionState:
        """The state after a commit, by default the newest, at which files were kept.

        Raises:
            CommitUnknown: there is no such commit.
            NotFound: none were.
        """
        session, world = self.session.id, self.session.world
        head = await world.get(session)
        if seq is not None and seq > head.seq:
            raise CommitUnknown(session=session, seq=seq, newest=head.seq)
        snapshot_seq = head.snapshot_seq if seq is None or head.snapshot_seq <= seq else 0
        state = await load_state(world, session, snapshot_seq, seq)
        if not state.tree.turn:
            raise NotFound(detail=NOT_KEPT.format(session=session, seq=state.seq, why=_why_none(state)))
        return state

    async def before(self, turn: int) -> str:
        """The root as it was when a turn began.

        Raises:
            TurnUnknown: there was no such turn, or it is not remembered what the files were then.
            NotFound: no files were kept.
        """
        began = (await self.at()).began
        if turn not in began:
            first = f"{turn}; the files are known as they were before {_span(list(began))}"
            raise TurnUnknown(session=self.session.id, turn=first)
        return began[turn]

    async def after(self, turn: int) -> str:
        """The root as a turn left it, so far: whatever was changed by hand or brought back since is none of its doing.

        Raises as `before` does.
        """
        root, session = await self.before(turn), self.session.id
        seq = 0
        while page := await self.session.world.commits(session, seq):
            for commit in page:
                kept = [one for one in records_of(session, commit) if isinstance(one, FilesKept)]
                root = next((one.root for one in reversed(kept) if _is_of(one, turn)), root)
            seq = page[-1].header.seq
        return root

    async def newest_turn(self) -> int:
        """The turn of which the files were kept last."""
        return (await self.at()).tree.turn

    async def changes(self, before: str, after: str, under: str = "") -> AsyncIterator[Change]:
        """What is not the same, but for times, below a path."""
        inside = under.strip("/")
        async for change in self.drive.diff(before, after):
            here = change.path == inside or change.path.startswith(f"{inside}/")
            if change.what != "touched" and (here or not inside):
                yield change

    async def shown(self, change: Change, before: str, after: str) -> Iterator[str]:
        """A change for people, in the words of `diff -u`."""
        old = await self._text(before, change.before)
        new = await self._text(after, change.after)
        return _lines(change, old, new)

    async def _text(self, root: str, entry: Entry | None) -> str | None:
        """What is to be compared of an entry; None: it is no text, or too long to be shown."""
        if entry is None or entry.kind == "dir":
            return ""
        if entry.kind == "link":
            return f"{entry.target}\n"
        if entry.size > SHOWN_BYTES:
            return None
        try:
            text = (await self.drive.read(root, entry.path)).decode()
        except UnicodeDecodeError:
            return None
        return None if "\0" in text or text.count("\n") > SHOWN_LINES else text


def _is_of(kept: FilesKept, turn: int) -> bool:
    return kept.turn == turn and kept.why != "undo"


def _why_none(state: SessionState) -> str:
    said = {} if state.opened is None else state.opened.workspace
    if not said.get("kind"):
        return "it works in a directory that its worker gives it, of which nothing is kept"
    if said.get("checkpoint") == "off":
        return f"its workspace, {said['kind']}, was opened with checkpoint='off'"
    return f"nothing of its workspace, {said['kind']}, had been kept yet"


def _span(turns: list[int]) -> str:
    if not turns:
        return "none"
    return f"turn {turns[0]}" if len(turns) == 1 else f"turns {min(turns)} to {max(turns)}"


def _lines(change: Change, old: str | None, new: str | None) -> Iterator[str]:
    one, other = change.before, change.after
    path = shown(change.path)
    if one is not None and other is not None and (one.kind, one.mode) != (other.kind, other.mode):
        yield f"{path}: {_kind(one)} is now {_kind(other)}"
    elif (one or other) is not None and _is_bare(one, other):
        word = "is new" if one is None else "is gone"
        entry = other if one is None else one
        yield f"{path}: {_kind(entry) if entry is not None else ''} {word}"
    if old is None or new is None:
        sizes = f"{0 if one is None else one.size:,} → {0 if other is None else other.size:,} bytes"
        yield f"{path}: differs ({sizes}; no text, or too long to be shown)"
        return
    names = ("/dev/null" if one is None else f"a/{path}", "/dev/null" if other is None else f"b/{path}")
    for line in difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), *names):
        yield line.rstrip("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _is_bare(one: Entry | None, other: Entry | None) -> bool:
    """Whether lines of text alone would not tell: of directories, and of files without any."""
    entry = other if one is None else one if other is None else None
    return entry is not None and (entry.kind == "dir" or (entry.kind == "file" and entry.size == 0))


def _kind(entry: Entry) -> str:
    word = {"dir": "directory", "file": "file", "link": "link"}[entry.kind]
    return word if entry.kind == "link" else f"{word} {entry.mode:o}"


def shown(path: str) -> str:
    """A path for people, whatever bytes it has."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
