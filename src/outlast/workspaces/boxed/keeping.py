"""How the files of a box are laid out and written down, in a directory that it is given or in one of its own.

Of both it is known which roots the files come from: of those of one captured call, the older and the newer, until the
log is seen to have one of them. A box that stands and whose files are of none of these is not the session's any more.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from anyio import to_thread

from outlast.drive import Capture
from outlast.errors import BoxError
from outlast.ids import new_id
from outlast.sandbox import Box, JobAsk
from outlast.workspaces.boxed.ground import Ground
from outlast.workspaces.distant import DistantFiles
from outlast.workspaces.drive import Drive, Folder
from outlast.workspaces.drive.folder import on_disk
from outlast.workspaces.drive.remoting import RemoteFolder

_FENCE: Final = "@"
"""How a line begins, of what is noted of a box, that names an attempt and no root."""


class Keep(Protocol):
    """The files of one box. One use at a time.

    Raises (each): `WorkspaceError`: the attempt is over, and what the log has is what the next one lays out.
    """

    async def lay_out(self, root: str) -> None:
        """Bring the files of a new box to a root: they are that, or this raises."""
        ...

    async def capture(self, root: str) -> Capture:
        """What the files are, beside what the log has; what stands is known to be of either from then on."""
        ...

    async def hold(self, fence: int) -> None:
        """Note, before any call of an attempt changes them, that the files have what it does."""
        ...

    def holds(self, fence: int) -> bool:
        """Whether they have what an attempt did: it held them, and they were not laid out since."""
        ...


class KeepHere:
    """See `Keep`. Of a directory of this machine."""

    def __init__(self, ground: Ground, drive: Drive) -> None:
        self._ground = ground
        self._folder = Folder(drive, ground.files, ground.known)

    async def lay_out(self, root: str) -> None:
        await to_thread.run_sync(self._forget)
        await self._folder.restore(root)
        await to_thread.run_sync(self._ground.own, self._ground.files)
        await to_thread.run_sync(remember, self._ground.mark, [root])

    async def capture(self, root: str) -> Capture:
        capture = await self._folder.checkpoint(root)
        if capture.root != root:
            await to_thread.run_sync(remember, self._ground.mark, [root, capture.root])
        return capture

    async def hold(self, fence: int) -> None:
        if not self.holds(fence):
            await to_thread.run_sync(remember, self._ground.held, [*self._fences(), str(fence)])

    def holds(self, fence: int) -> bool:
        return str(fence) in self._fences()

    def _fences(self) -> list[str]:
        held = self._ground.held
        return held.read_text().split() if held.exists() else []

    def _forget(self) -> None:
        """Whoever dies before the files are laid out leaves some of which nobody knows whose they are."""
        self._ground.mark.unlink(missing_ok=True)
        self._ground.held.unlink(missing_ok=True)


class KeepThere:
    """See `Keep`. Of a directory of the box's own.

    What is remembered of its files, so that only what has changed travels, is kept here. Which roots they come from is
    kept in the box: another worker that attaches to it knows that too.
    """

    def __init__(self, box: Box, files: DistantFiles, drive: Drive, known: Path, cwd: str) -> None:
        self._box = box
        self._known = known
        self._folder = RemoteFolder(drive, files.tree(cwd), known)
        self._roots = noted_roots(box)
        self._fences = [line[1:] for line in box.noted.split("\n") if line.startswith(_FENCE)]

    async def lay_out(self, root: str) -> None:
        await to_thread.run_sync(lambda: self._known.unlink(missing_ok=True))  # it is of another box
        await self._folder.restore(root)
        self._fences = []
        await self._note([root])

    async def capture(self, root: str) -> Capture:
        capture = await self._folder.checkpoint(root)
        if capture.root != root:
            await self._note([root, capture.root])
        return capture

    async def hold(self, fence: int) -> None:
        if not self.holds(fence):
            self._fences.append(str(fence))
            await self._note(self._roots)

    def holds(self, fence: int) -> bool:
        return str(fence) in self._fences

    async def _note(self, roots: Sequence[str]) -> None:
        self._roots = roots
        lines = [*roots, *(f"{_FENCE}{fence}" for fence in self._fences)]
        await self._box.note("".join(f"{line}\n" for line in lines))


async def make_home(box: Box, home: Path) -> None:
    """Make the directory of HOME in a box of which it is the box's own.

    Raises:
        BoxError: it cannot be there.
    """
    job = await box.begin(JobAsk(new_id("home"), ["mkdir", "-p", str(home)], cwd="/"))
    if await job.wait():
        said = b"".join([piece async for _, piece in job.output("stderr")]).decode("utf-8", "replace").strip()
        raise BoxError(
            box=str(box.ref),
            reason=f"it can have no HOME at {home}: {said}. Set OUTLAST_DATA_DIR to another.",
        )


def noted_roots(box: Box) -> Sequence[str]:
    """The roots that the files of a box of `KeepThere` are of; empty: nobody knows."""
    return [line for line in box.noted.split("\n")[:-1] if not line.startswith(_FENCE)]


def remember(mark: Path, roots: Sequence[str]) -> None:
    """Note which roots the files may be those of, now or once the log has the newer."""
    new = mark.with_suffix(".new")
    with on_disk(f"{mark} cannot be written"):
        new.write_text("\n".join(roots))
        new.replace(mark)


def marked_roots(mark: Path) -> Sequence[str]:
    """The roots of which the newer is, or the older was, what the files come from; empty: nobody knows."""
    try:
        return mark.read_text().split("\n")
    except OSError:
        return []
