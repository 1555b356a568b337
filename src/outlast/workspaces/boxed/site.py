"""The site of a sandbox: commands as jobs of its box, its files captured by their drive."""

from codecs import getincrementaldecoder
from collections.abc import Callable, Collection
from contextlib import suppress
from signal import SIGKILL
from typing import TYPE_CHECKING, Final, Literal

import anyio

from outlast.drive import Capture
from outlast.errors import BoxGone, Fenced, WorkspaceError
from outlast.groups import task_group
from outlast.sandbox import Box, Job, JobAsk
from outlast.workspace import Command, Files, Lender, Ran, Undone
from outlast.workspaces.boxed.distance import Given
from outlast.workspaces.boxed.files import BoxFiles
from outlast.workspaces.boxed.keeping import Keep
from outlast.workspaces.boxed.programs import BoxPrograms
from outlast.workspaces.boxed.shells import BoxShells
from outlast.workspaces.drive import Drive
from outlast.workspaces.runs import Runs
from outlast.workspaces.virtual.output import Stream

if TYPE_CHECKING:  # an adapter names workspaces
    from outlast.adapter import Processes

BASH: Final = "/bin/bash"
TIMED_OUT: Final = 124
ENDING_S: Final = 10.0
BEAT_S: Final = 10.0
"""How long programs that are tied to a worker live after its last beat."""


class BoxSite:
    """See `outlast.workspace.Site`."""

    def __init__(  # noqa: PLR0913 - each is one thing that it stands on
        self, box: Box, given: Given, keep: Keep, drive: Drive, root: str, *, cwd: str, undoes: Undone
    ) -> None:
        """Of a box that stands.

        Args:
            root: what the files of `keep` were last known to be.
            undoes: see `outlast.workspace.Undoes`.
        """
        self._box = box
        self._given = given
        self._keep = keep
        self._drive = drive
        self._root = root
        self._cwd = cwd
        self._undoes: Undone = undoes
        self._lived = box.lived
        self._begun: set[str] = set()
        self._runs = Runs()
        self.shells = BoxShells(box)
        """Of commands that programs run; a box that does not outlive its worker lends none."""

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def files(self) -> Files:
        return BoxFiles(self._box, self._cwd)

    @property
    def processes(self) -> "Processes":
        return BoxPrograms(self._box, self._given)

    @property
    def hosts_programs(self) -> bool:
        return True

    @property
    def undoes(self) -> Undone:
        """See `outlast.workspace.Undoes`."""
        return self._undoes

    @property
    def shell(self) -> str:
        """See `outlast.workspace.LendsShell`, here and below."""
        return self.shells.path

    def lend(self, lender: Lender | None) -> None:
        self.shells.lend(lender)

    async def take_up(
        self, job: str, show: Callable[[str], None], outlasts: Callable[[], bool], patience_s: float = 0.0
    ) -> Ran | None:
        return await self.shells.take_up(job, show, outlasts, patience_s)

    async def give_back(self, job: str) -> None:
        await self.shells.give_back(job)

    async def end_others(self, jobs: Collection[str]) -> None:
        await self.shells.end_others(jobs)

    def holds(self, fence: int) -> bool:
        """See `outlast.behind.Holds`."""
        return self._keep.holds(fence)

    async def run(self, command: Command) -> Ran:
        return await self._runs.run(command, lambda: self._run(command))

    async def _run(self, command: Command) -> Ran:
        began_s = anyio.current_time()
        fresh = not await self.knows(command.job)
        self._begun.add(command.job)
        path = {"PATH": self._given.path} if self._given.path else {}
        ask = JobAsk(
            command.job,
            [BASH, "-c", command.text],
            f"{self._cwd}/{command.cwd}" if command.cwd else "",
            {"HOME": str(self._given.home), **path, **command.env},
            timeout_s=command.timeout_s,
        )
        job = await self._box.begin(ask)
        out, err = Stream(), Stream()
        try:
            async with task_group() as tasks:
                tasks.start_soon(_read, job, "stdout", out, command)
                tasks.start_soon(_read, job, "stderr", err, command)
            status = await job.wait()
        except BaseException:
            if not command.outlasts():
                with anyio.move_on_after(ENDING_S, shield=True), suppress(WorkspaceError):
                    await job.signal(SIGKILL)
                    await job.wait()
            raise
        # A command may end so by itself; of one that was begun before nobody here knows when.
        timed_out = status == TIMED_OUT and not (fresh and anyio.current_time() - began_s < command.timeout_s)
        return Ran(status, out.text(), err.text(), out.cut + err.cut, timed_out)

    async def knows(self, job: str) -> bool | None:
        if job in self._begun or await self._box.find(job) is not None:
            return True
        return False if self._lived or self._undoes == "all" else None

    async def capture(self) -> Capture:
        async with self._runs.still():
            capture = await self._keep.capture(self._root)
        self._root = capture.root
        return capture

    def captured(self, root: str) -> None:
        self._drive.captured(root)


async def beat(box: Box) -> None:
    """Keep what is tied to this attempt alive, until it is cancelled."""
    while True:
        try:
            await box.beat(BEAT_S)
        except (BoxGone, Fenced):
            return  # whoever uses it finds out
        except WorkspaceError:
            await anyio.sleep(BEAT_S / 10)
            continue
        await anyio.sleep(BEAT_S / 3)


async def _read(job: Job, name: Literal["stdout", "stderr"], into: Stream, command: Command) -> None:
    end, decoder = 0, getincrementaldecoder("utf-8")("replace")
    async for at, piece in job.output(name):
        into.cut += at - end  # the box itself kept only so much
        end = at + len(piece)
        text = decoder.decode(piece)
        into.add(text)
        if command.show is not None and text:
            command.show(text)
    into.add(decoder.decode(b"", final=True))
