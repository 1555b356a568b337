"""`outlast undo`: a user's directory as it was before a turn.

What is overwritten is durable in the session's log before the first file is touched, so that an undo can be undone; and
what the files then are is in the log after the last. Cut off in between, and done again, it ends right.
"""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click
from anyio import to_thread

from outlast.cli.machine import machine_id
from outlast.cli.options import SESSION, Setup, examples, perform, shared
from outlast.cli.text import plain
from outlast.codec import Packer, encode_records, record_refs
from outlast.drive import Capture
from outlast.errors import BadInput, CommitConflict, Fenced, NotIdle, Refused, WorkspaceError
from outlast.fold import SessionState
from outlast.records import PLAIN, AnyRecord, FilesKept
from outlast.session import Session
from outlast.sites import find_store
from outlast.state import status_of
from outlast.trees import Trees, shown
from outlast.workspaces.drive import Change, Drive, Folder
from outlast.workspaces.drive.paths import encode_path
from outlast.workspaces.local.extent import RULES, Extent, UntoldError, ignored_by, lies_in, measured
from outlast.workspaces.local.kind import DRIVES
from outlast.world import Header, SessionHead
from outlast.world.commit import make_commit

AHEAD: Final = 4 * 1024 * 1024
"""Bytes of packs in one commit."""
CHANGED_LIMIT: Final = 100
BEGAN_BEFORE: Final = (
    "Something has begun to work on {session}: nothing was brought back. Let it end, and try again."
)
BEGAN_MEANWHILE: Final = (
    "The files were brought back, but a turn of {session} has begun meanwhile: it may have seen some as they were, and "
    "what it had changed by then is gone. Look at what it does, with `outlast follow {session}`. What the files were "
    "before is kept at commit {kept}."
)
NOT_YOURS: Final = (
    "{session} works in {where}, which outlast keeps by itself: there is no directory of yours to bring back. To go on "
    "from before a turn, fork it: outlast fork {session} --turn N."
)


@click.command(
    epilog=examples(
        "outlast undo pricing-3f2a",
        "outlast undo pricing-3f2a --turn 4 --yes",
        "outlast undo pricing-3f2a --at 214",
    )
)
@click.argument("session", type=SESSION)
@click.option("--turn", type=click.IntRange(1), help="As it was before this turn; by default the newest one.")
@click.option("--at", type=click.IntRange(1), help="As it was at this commit: takes an undo back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@shared
def undo(session: str, turn: int | None, at: int | None, yes: bool, world: str | None, json: bool) -> None:
    """Bring the directory that SESSION works in back to what it was before a turn.

    It shows what that changes, and asks. What you have changed by hand since is overwritten as well; it is kept in the
    log first, and the command that brings it back is printed. What git ignores is not touched, nor are git's own files.
    The conversation stays as it is: tell the agent.
    """
    if turn is not None and at is not None:
        raise click.UsageError("--turn and --at exclude each other.")

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            undoing = await _begin(setup, await Session.find(opened, session))
            number = undoing.state.tree.turn if turn is None else turn
            trees = undoing.trees
            root = await trees.before(number) if at is None else (await trees.at(at)).tree.root
            before = f"turn {number}" if at is None else f"commit {at}"
            await undoing.bring_back(root, before, yes=yes)

    perform(body, world=world, json=json)


async def _begin(setup: Setup, session: Session) -> "_Undoing":
    """Look whether anything can be undone.

    Raises:
        Refused: something works on the files.
        BadInput, NotFound, WorkspaceError
    """
    head, trees = await session.head(), await Trees.of(session)
    state = await session.state()
    said = {} if state.opened is None else state.opened.workspace
    if said.get("kind") != "local":
        where = (
            f"a workspace of the kind {said['kind']}" if said.get("kind") else "a directory of its worker's"
        )
        raise BadInput(detail=NOT_YOURS.format(session=session.id, where=where))
    state = await trees.at()
    host = str(said.get("host", ""))
    if host and host != machine_id(setup.settings.data):
        raise BadInput(detail=f"{session.id} works in {said['path']} of another machine. Undo it there.")
    if state.turn is not None:
        hint = f"End it first: outlast cancel {session.id}."
        raise Refused(
            detail=f"Turn {state.turn.turn} of {session.id} is open and may be changing files. {hint}"
        )
    if state.queue or head.waiting_inputs:
        raise Refused(
            detail=f"A prompt waits in {session.id}, whose turn may begin at any time. Let it end first."
        )
    directory = Path(str(said["path"]))
    if not await to_thread.run_sync(directory.is_dir):
        raise WorkspaceError(detail=f"The directory {directory} of {session.id} is not there any more.")
    extent = await to_thread.run_sync(measured, directory)
    if isinstance(extent, str):
        raise WorkspaceError(detail=f"{directory} cannot be brought back: {extent}.")
    name = session.id if state.opened is None else state.opened.folder or session.id
    store = find_store(said, session.world.tenant)
    if store is not None:  # what is kept of the directory goes where the rest of its files are
        trees = await Trees.of(session, partial(store.put_many, session=name, fence=state.fence))
    cache = setup.settings.data / DRIVES / name / "known"
    cache.parent.mkdir(parents=True, exist_ok=True)
    return _Undoing(setup, session, trees, _Ground(directory, cache, extent), head, state)


@dataclass(frozen=True, slots=True)
class _Ground:
    """Where files are brought back to."""

    directory: Path
    cache: Path
    extent: Extent

    def folder(self, drive: Drive, extent: Extent) -> Folder:
        return Folder(drive, self.directory, self.cache, skips=extent.skips)


@dataclass(slots=True)
class _Undoing:
    """One undo.

    A turn may have changed what git ignores. What the tree to be brought back has is brought back, though it is
    ignored by now; and what was ignored then stays, though by now it is not, and so would be removed.
    """

    setup: Setup
    session: Session
    trees: Trees
    ground: _Ground
    head: SessionHead
    state: SessionState

    async def bring_back(self, root: str, before: str, *, yes: bool) -> None:
        """Show what is different, ask, keep what there is, and make it as it was."""
        drive = self.trees.drive
        wanted = [encode_path(entry.path) async for entry in drive.entries(root)]
        extent = self.ground.extent.wanting(wanted)
        now = await self.ground.folder(drive, extent).checkpoint(self.state.tree.root)
        changes = [change async for change in self.trees.changes(now.root, root)]
        spared = await self._ignored_then(root, changes)
        changes = [change for change in changes if not lies_in(encode_path(change.path), spared)]
        paths = [shown(change.path) for change in changes]
        session = self.session.id
        facts = {"session": session, "before": before, "changed": paths}
        if not changes:
            self.setup.say(
                {**facts, "back": None}, f"The files of {session} are as they were before {before}."
            )
            return
        if not self.setup.json:
            await self._show(changes, now.root, root)
        if not yes:
            _ask(len(changes), before)
        with _unless_begun(BEGAN_BEFORE.format(session=session)):
            kept = await self._keep(now)
        await self.ground.folder(drive, extent.without(spared)).restore(root)
        with _unless_begun(BEGAN_MEANWHILE.format(session=session, kept=kept)):
            await self._write([self._record(root, paths)], {})
        back = f"outlast undo {session} --at {kept}"
        self.setup.say(
            {**facts, "back": kept},
            f"{len(paths)} brought back to before {before}. Take that back with: {back}",
        )

    async def _ignored_then(self, root: str, changes: Sequence[Change]) -> frozenset[bytes]:
        """Of what would be removed that which git ignored by the rules that are brought back."""
        if not any(encode_path(change.path).rpartition(b"/")[2] == RULES for change in changes):
            return frozenset()
        drive = self.trees.drive
        rules = {
            encode_path(entry.path): await drive.read(root, entry.path)
            async for entry in drive.entries(root)
            if entry.kind == "file" and encode_path(entry.path).rpartition(b"/")[2] == RULES
        }
        gone = [
            encode_path(change.path) + (b"/" if change.before.kind == "dir" else b"")
            for change in changes
            if change.before is not None and change.after is None
        ]
        try:
            found = await to_thread.run_sync(ignored_by, self.ground.directory, rules, gone)
        except UntoldError as untold:
            where = self.ground.directory
            raise WorkspaceError(
                detail=f"{where} cannot be brought back: git does not say what it ignored then: {untold}."
            ) from untold
        return frozenset(path.rstrip(b"/") for path in found)

    async def _show(self, changes: Sequence[Change], now: str, root: str) -> None:
        for change in changes:
            for line in await self.trees.shown(change, now, root):
                click.echo(plain(line))

    async def _keep(self, now: Capture) -> int:
        """Make what there is durable; returns the number of the commit that says so."""
        for packs in _pieces(now.packs):
            await self._write([], packs)
        await self._write([self._record(now.root, now.changed)], {})
        self.trees.drive.captured(now.root)
        return self.state.seq

    def _record(self, root: str, changed: Sequence[str]) -> AnyRecord:
        at_s = self.setup.clock.now()
        return FilesKept(
            root, self.state.tree.turn, "undo", changed=tuple(changed[:CHANGED_LIMIT]), at_s=at_s
        )

    async def _write(self, records: list[AnyRecord], packs: Mapping[str, bytes]) -> None:
        """One commit, while nobody holds the session.

        Raises:
            NotIdle, CommitConflict, Fenced: somebody has begun to work on it.
        """
        world, state = self.session.world, self.state
        packer = Packer(world.tenant, set())
        for pack in packs.values():
            packer.blob(pack)
        header = Header(
            seq=state.seq + 1,
            fence=state.fence,
            format=PLAIN,
            events=len(records),
            refs=tuple(dict.fromkeys((*record_refs(records), *packer.blobs))),
            wake_at_s=self.head.wake_at_s,
            status=status_of(state),
        )
        await world.commit_idle(self.session.id, make_commit(header, encode_records(records), packer.blobs))
        state.seq += 1


@contextmanager
def _unless_begun(otherwise: str) -> Generator[None]:
    """Raises `Refused` where somebody has begun to work on the session."""
    try:
        yield
    except (NotIdle, CommitConflict, Fenced) as error:
        raise Refused(detail=otherwise) from error


def _pieces(packs: Mapping[str, bytes]) -> Iterator[Mapping[str, bytes]]:
    piece: dict[str, bytes] = {}
    for name, data in packs.items():
        piece[name] = data
        if sum(map(len, piece.values())) >= AHEAD:
            yield piece
            piece = {}
    if piece:
        yield piece


def _ask(count: int, before: str) -> None:
    if not sys.stdin.isatty():
        raise BadInput(
            detail="There is no terminal to ask on. Give --yes to bring files back without a question."
        )
    click.confirm(f"Bring {count} back to before {before}?", abort=True, err=True)
