"""Opens sandboxes: attaches to the box that stands for a session, or makes one from the files that the log has."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, cast, runtime_checkable

from anyio import to_thread

from outlast.beneath import remove_tree
from outlast.clock import SystemClock
from outlast.errors import SandboxUnsupported, WorkspaceError
from outlast.groups import task_group
from outlast.plugins import brought
from outlast.sandbox import Box, OpenProvider, SandboxProvider, Spec
from outlast.workspace import Note, Passage, Stay, Undone
from outlast.workspaces.boxed.description import CWD, Sandboxed, read_sandbox
from outlast.workspaces.boxed.distance import Distance, Given
from outlast.workspaces.boxed.ground import SANDBOXES, Ground, ground_of, way_of
from outlast.workspaces.boxed.home import DistantHome
from outlast.workspaces.boxed.keeping import Keep, KeepHere, KeepThere, make_home, marked_roots, noted_roots
from outlast.workspaces.boxed.shells import PLACES, lent_shells
from outlast.workspaces.boxed.site import BoxSite, beat
from outlast.workspaces.distant import DistantFiles
from outlast.workspaces.drive import Drive
from outlast.workspaces.egress import CredentialUsed, Egress, Event, Outside, TurnedAway, Who, open_egress
from outlast.workspaces.egress.authority import forget_authorities
from outlast.workspaces.egress.inside import PUBLIC

PROVIDERS: Final = "outlast.sandboxes"
LABEL: Final = "outlast"
NO_READS: Final = "it can show no directory of the worker's machine (reads=)."
IN_IMAGE: Final = "Have what is to be read in the image."


@runtime_checkable
class Owned(Protocol):
    """A provider whose boxes run as somebody else than the worker."""

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group to whom what a box may write must belong."""
        ...


class SandboxKind:
    """See `outlast.workspace.Kind`.

    Args:
        find: the provider of a name, over the directory of what a worker keeps.
    """

    def __init__(self, find: Callable[[str, Path], SandboxProvider] | None = None) -> None:
        self._find = find or find_provider

    @asynccontextmanager
    async def open(self, reference: Mapping[str, Any], stay: Stay) -> AsyncGenerator[BoxSite]:
        said = read_sandbox(reference)
        provider = self._find(said.provider, stay.data)
        mounts = "mounts" in provider.abilities
        if said.reads and not mounts:
            raise SandboxUnsupported(provider=said.provider, reason=NO_READS, way_out=IN_IMAGE)
        owner = provider.owner if isinstance(provider, Owned) else None
        ground = ground_of(stay, said.reads, owner)
        await ground.make(mounts=mounts)
        gateway = "" if stay.gateway is None else await stay.gateway()
        drive = Drive(stay.packs, stay.tenant, put=stay.put)
        await to_thread.run_sync(forget_authorities, ground.way_out.parent, SystemClock().now())
        async with AsyncExitStack() as held:
            # Certificates are mounted, or written where a box may write.
            public = PUBLIC if mounts else f"{stay.home}/.outlast"
            who, outside = Who(stay.tenant, stay.session), Outside(told=_noting(stay.note), public=public)
            out = await held.enter_async_context(
                open_egress(
                    said.network,
                    who,
                    ground.way_out,
                    gateway=gateway,
                    outside=outside,
                    outlived=said.idle_s > 0,
                )
            )
            lent = await held.enter_async_context(lent_shells(ground.way_out)) if said.idle_s else None
            spec = spec_of(said, stay, ground, out, mounts=mounts)
            if lent is not None:
                spec = replace(spec, ways=(*spec.ways, lent[0]), shell=PLACES[0])

            def fits(box: Box) -> bool:
                return stay.root in (marked_roots(ground.mark) if mounts else noted_roots(box))

            box = await held.enter_async_context(_attached(provider, spec, stay.fence, fits))
            tasks = await held.enter_async_context(task_group())
            tasks.start_soon(beat, box)  # from now on: to lay out files may take its time
            held.callback(tasks.cancel_scope.cancel)
            given, keep = (
                (ground, KeepHere(ground, drive))
                if mounts
                else await _at_distance(held, box, ground, drive, spec, out)
            )
            if not box.lived:  # one that lived has what its calls left
                await keep.lay_out(stay.root)
            await keep.hold(stay.fence)
            # Files that are not written down with each call are behind what the log says of those that ended.
            back = said.checkpoint == "call" and not box.lived
            leads_out = said.network.allow or said.network.credentials or "network" not in provider.abilities
            undoes: Undone = "" if not back else "files" if leads_out else "all"
            site = BoxSite(box, given, keep, drive, stay.root, cwd=CWD, undoes=undoes)
            if lent is not None:
                site.shells = await lent[1](box)
            yield site

    async def forget(self, reference: Mapping[str, Any], folder: str, data: Path) -> None:
        provider = self._find(read_sandbox(reference).provider, data)
        for found in await provider.list({LABEL: folder}):
            await provider.destroy(found.ref)
        await to_thread.run_sync(_remove, data, folder)


def _remove(data: Path, folder: str) -> None:
    for kept in (data.absolute() / SANDBOXES / folder, way_of(data.absolute(), folder)):
        try:
            remove_tree(kept)
        except OSError as error:
            raise WorkspaceError(detail=f"{kept} cannot be removed whole: {error.strerror}.") from error


def _noting(note: Note | None) -> Callable[[Event], None] | None:
    """What of the way out goes into the session's log; connections to hosts that are allowed do not."""
    if note is None:
        return None

    def told(event: Event) -> None:
        match event:
            case CredentialUsed(credential=name, method=method, host=host, port=port, path=path):
                note(Passage("used", host, port, name, method, path, event.status))
            case TurnedAway(host=host, port=port, why=why):
                note(Passage("refused", host, port, why=why))
            case _:
                pass

    return told


def find_provider(name: str, data: Path) -> SandboxProvider:
    """The provider of this name.

    Raises:
        SandboxUnsupported: nothing that is installed brings it.
        ExtraMissing: it needs a package that is not installed.
    """
    points = brought(PROVIDERS)
    if name not in points.names:
        known = ", ".join(sorted(points.names)) or "none"
        raise SandboxUnsupported(
            provider=name,
            reason=f"nothing that is installed brings it; there is {known}.",
            way_out="Install the package that does, where the worker runs.",
        )
    return cast("OpenProvider", points[name].load())(data)


def spec_of(said: Sandboxed, stay: Stay, ground: Ground, out: Egress, *, mounts: bool) -> Spec:
    """What the box of a session is to be."""
    return Spec(
        name=stay.folder,
        image=said.image,
        cwd=CWD,
        mounts=(*ground.mounts(CWD), *out.mounts) if mounts else (),
        ways=out.ways,
        env={"HOME": str(ground.home), **out.env},
        limits=said.limits,
        idle_s=said.idle_s,
        labels={LABEL: stay.folder},
        spare=stay.spare,
    )


async def _at_distance(
    held: AsyncExitStack, box: Box, ground: Ground, drive: Drive, spec: Spec, out: Egress
) -> tuple[Given, Keep]:
    """What a box without mounts is given, and how its files are kept."""
    if not box.lived:
        await make_home(box, ground.home)
    for path, data in out.files.items():
        await box.write(path, data)
    files = DistantFiles(box, [spec.cwd, str(ground.home)], spec.limits.output_bytes)
    held.push_async_callback(files.close)
    home = DistantHome(files.tree(str(ground.home)), ground.home)
    return Distance(ground.home, home), KeepThere(box, files, drive, ground.known, spec.cwd)


@asynccontextmanager
async def _attached(
    provider: SandboxProvider, spec: Spec, fence: int, fits: Callable[[Box], bool]
) -> AsyncGenerator[Box]:
    """The box of a session. One that does not fit, since the log went on elsewhere with other files, is ended first.

    It is ended by whoever holds it: an attempt of an older fence that comes late ends nothing.
    """
    async with provider.attach(spec, fence) as box:
        if not box.lived or fits(box):
            yield box
            return
        await provider.destroy(box.ref)
    async with provider.attach(spec, fence) as box:
        yield box
