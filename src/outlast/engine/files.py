"""The files of a session's workspace beside its calls.

Invariants:

* One call changes files at a time: from its first change until its outcome is durable no other of this attempt does.
* What a call changed is in the log in one commit with its outcome, or not at all.
* What cannot be written down, or is gone, ends the attempt: no outcome is written that the files do not stand for. The
  next attempt goes on from what the log holds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NoReturn, get_args

from outlast.behind import Holds, Unkept
from outlast.clock import Clock
from outlast.codec import Packer
from outlast.drive import Capture, Entry
from outlast.engine.writer import Writer
from outlast.errors import BoxGone, OutlastError, WorkspaceError
from outlast.fold import SessionState
from outlast.gate import Gate, Point
from outlast.records import EMPTY, CallIntent, FilesKept, KeptFor
from outlast.tool import Tool
from outlast.workspace import Checkpoint, Command, Files, Ran, Site, Undoes, Undone

AHEAD: Final = 4 * 1024 * 1024
"""Bytes of packs in one commit; of a larger capture the first go ahead in commits of their own."""
NONE: Final = (
    "The session {session!r} has no workspace whose files and commands can be had. Open it with one: "
    "Session.open(…, workspace=virtual())."
)
OVER: Final = "The call is over; it changes nothing any more."


def checkpoint_of(state: SessionState) -> Checkpoint:
    """When the files of a session are written down; what nobody said is never."""
    said = {} if state.opened is None else state.opened.workspace
    return next((one for one in get_args(Checkpoint) if one == said.get("checkpoint")), "off")


def replayed(tool: Tool) -> Tool:
    """The tool in a workspace that forgets what an interrupted call did, where it does nothing else."""
    return replace(tool, policy="safe", verify=None, on_doubt="tell") if tool.within else tool


class WorkFiles:
    """The workspace of one attempt, or that there is none."""

    def __init__(self, writer: Writer, gate: Gate, clock: Clock, site: Site | None = None) -> None:
        self._writer = writer
        self._gate = gate
        self._clock = clock
        self._site = site
        self._checkpoint = checkpoint_of(writer.state)
        self.changing = asyncio.Lock()
        """Held by the call that changes files."""
        self.dirty = False
        """Something was changed that no capture has."""
        self.fail: Callable[[OutlastError], NoReturn] = _raise
        """Ends the attempt."""
        self.outlasts: Callable[[], bool] = lambda: False
        """Another attempt is to go on with what this one leaves."""

    @property
    def site(self) -> Site:
        """The open site.

        Raises:
            WorkspaceError: there is none.
        """
        if self._site is None:
            raise WorkspaceError(detail=NONE.format(session=self._writer.state.session))
        return self._site

    @property
    def open_site(self) -> Site | None:
        """The open site, if there is one."""
        return self._site

    @property
    def forgets(self) -> bool:
        """Whatever an interrupted call of our own did to it is gone, and it reaches nothing else."""
        return self._site is not None and not self._site.hosts_programs

    @property
    def undone(self) -> Undone:
        """What is undone of the calls that earlier attempts did not end."""
        asked = self._checkpoint == "call" and isinstance(self._site, Undoes)
        return self._site.undoes if asked and isinstance(self._site, Undoes) else ""

    @property
    def may_lose(self) -> bool:
        """What ended calls have changed may be gone when the next attempt comes, and it must know of which."""
        return self._checkpoint != "call" and isinstance(self._site, Holds)

    def gone(self, unkept: Sequence[Unkept]) -> Sequence[Unkept]:
        """Those of these calls whose changes are not in the files any more."""
        site = self._site
        return [one for one in unkept if isinstance(site, Holds) and not site.holds(one.fence)]

    @property
    def kept(self) -> bool:
        """Files of the open turn are in the log."""
        turn = self._writer.state.turn
        return turn is not None and self._writer.state.tree.turn == turn.turn

    async def begin(self) -> None:
        """Before anything of a new turn runs. Durable.

        Raises:
            WorkspaceError
        """
        if self._site is not None and self._checkpoint == "turn":
            packer = self._writer.packer()
            kept = await self._capture("begin", packer)
            await self._writer.write(*kept, packer=packer)
            self.landed(kept)

    async def end(self) -> None:
        """When the attempt has come to an orderly end: what stands in no outcome.

        Raises:
            WorkspaceError
        """
        wanted = self._checkpoint == "turn" or (self._checkpoint == "call" and not self.forgets)
        if self._site is not None and wanted and self._writer.lost is None:
            packer = self._writer.packer()
            kept = await self._capture("end", packer)
            self._writer.append(*kept, packer=packer, lazy=True)  # what ends the attempt takes it along

    async def of_call(self, intent: CallIntent, packer: Packer) -> Sequence[FilesKept]:
        """What stands in one commit with the outcome of a call that changed files.

        Raises:
            TurnStopped: they cannot be written down; the attempt is over.
        """
        if self._site is None or self._checkpoint != "call":
            return ()
        try:
            return await self._capture("call", packer, intent)
        except WorkspaceError as error:
            self.fail(error)

    def landed(self, kept: Sequence[FilesKept]) -> None:
        """These are durable."""
        for one in kept:
            self.site.captured(one.root)

    async def _capture(
        self, why: KeptFor, packer: Packer, intent: CallIntent | None = None
    ) -> Sequence[FilesKept]:
        writer, site = self._writer, self.site
        turn = writer.state.turn
        assert turn is not None  # an attempt is at an open one
        call, policy = (0, "") if intent is None else (intent.call, intent.policy)
        await self._gate.cross(Point.BEFORE_CAPTURE, call=call, policy=policy)
        capture = await site.capture()
        self.dirty = False
        if capture is None:
            return ()
        await self._gate.cross(Point.AFTER_CAPTURE, call=call, policy=policy)
        aside = packer.payload(dict(capture.aside), what="the workspace") if capture.aside else EMPTY
        tree = writer.state.tree
        if (capture.root, aside) == (tree.root, tree.aside) and (tree.turn or why == "call"):
            return ()
        await self._pack(capture, packer)
        changed = tuple(capture.changed)
        return [FilesKept(capture.root, turn.turn, why, call, aside, changed, self._clock.now())]

    async def _pack(self, capture: Capture, packer: Packer) -> None:
        """Put the packs of a capture among the blobs of its commit; of many the first land before it."""
        ahead, size = self._writer.packer(), 0
        left = len(capture.packs)
        for name, pack in capture.packs.items():
            left -= 1
            into = ahead if left else packer
            if into.blob(pack) != name:
                raise WorkspaceError(detail=f"The workspace calls a pack {name}, which is not its hash.")
            size += len(pack) if name in ahead.blobs else 0  # what the log holds already goes nowhere
            if size >= AHEAD:
                await self._writer.write(packer=ahead)
                ahead, size = self._writer.packer(), 0
        packer.blobs.update(ahead.blobs)


def _raise(error: OutlastError) -> NoReturn:
    raise error


class CallFiles:
    """The workspace as one try of a call has it (`outlast.workspace.CallSite`)."""

    def __init__(self, of: WorkFiles, key: Callable[[], str]) -> None:
        self._of = of
        self._key = key
        self._runs = 0
        self._taking = asyncio.Lock()
        self.changed = False
        """It holds the files, and may have changed them."""
        self.paths: dict[str, None] = {}
        """What it has written or removed, in order."""
        self.ran = False
        """It has run a command that may have changed others."""
        self.over = False

    @property
    def cwd(self) -> str:
        return self._of.site.cwd

    @property
    def hosts_programs(self) -> bool:
        return self._of.site.hosts_programs

    @property
    def files(self) -> Files:
        return _Guarded(self._of.site.files, self)

    async def run(
        self,
        text: str,
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        show: Callable[[str], None] | None = None,
        looks: bool = False,
    ) -> Ran:
        self._runs += 1
        job = self._job(self._runs)
        if not looks:
            await self.change()
            self.ran = True
        try:
            return await self._of.site.run(
                Command(text, job, cwd, env or {}, timeout_s, show, self._of.outlasts)
            )
        except BoxGone as error:
            self._of.fail(error)

    async def knows(self, run: int = 1) -> bool | None:
        return await self._of.site.knows(self._job(run))

    def _job(self, run: int) -> str:
        return self._key() if run == 1 else f"{self._key()}.{run}"

    async def change(self) -> None:
        """From here on this call may change files, and no other does.

        Raises:
            WorkspaceError: the call is over.
        """
        async with self._taking:  # the call may do several things at once
            if not (self.over or self.changed):
                await self._of.changing.acquire()
                self.changed = True
        if self.over:
            self.release()
            raise WorkspaceError(detail=OVER)
        self._of.dirty = True

    async def hold(self) -> None:
        """No other call changes files, or writes down what they are, until this one is over."""
        async with self._taking:
            if not self.changed:
                await self._of.changing.acquire()
                self.changed = True

    def release(self) -> None:
        """Another call may change files."""
        self.over = True
        if self.changed:
            self.changed = False
            self._of.changing.release()


class _Guarded:
    """The files as one call has them (`outlast.workspace.Files`)."""

    def __init__(self, files: Files, call: CallFiles) -> None:
        self._files = files
        self._call = call

    async def read(self, path: str) -> bytes:
        return await self._files.read(path)

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self._call.change()
        self._call.paths[path] = None
        await self._files.write(path, data, mode=mode)

    async def find(self, path: str) -> Entry | None:
        return await self._files.find(path)

    async def list(self, path: str) -> Sequence[Entry]:
        return await self._files.list(path)

    async def remove(self, path: str) -> None:
        await self._call.change()
        self._call.paths[path] = None
        await self._files.remove(path)
