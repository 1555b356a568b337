"""What an attempt finds on its machine: its places, how programs are started, and the session's workspace.

The kind of a workspace is found by the word that stands in its reference, among the entry points of the group
`outlast.workspaces`, so that third parties can add theirs.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from outlast.adapter import Agent, Gateway, Places, Processes
from outlast.codec import unsqueeze
from outlast.engine.attempt import Surroundings
from outlast.engine.batch import patiently
from outlast.engine.places import is_ours, make_places, places_of
from outlast.errors import BlobUnknown, PacksGone, WorkspaceError
from outlast.fold import SessionState
from outlast.records import SessionOpened
from outlast.workspace import Kind, OpenKind, Stay
from outlast.world import World

GROUP: Final = "outlast.workspaces"
UNKNOWN: Final = (
    "This session works in a workspace of the kind {kind!r}, which this installation does not have (it has {known}). "
    "Install the package that brings it, where the worker runs."
)


def find_kind(kind: str) -> Kind | None:
    """The kind of workspaces of this name; None if nothing that is installed brings it.

    Raises:
        ExtraMissing: it needs a package that is not installed.
    """
    points = entry_points(group=GROUP)
    return cast("OpenKind", points[kind].load())() if kind in points.names else None


@dataclass(frozen=True, slots=True)
class WorldPacks:
    """The packs that the log of a session holds (`outlast.drive.Packs`)."""

    world: World
    session: str

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        try:
            found = await patiently(lambda: self.world.get_many(self.session, names))
        except BlobUnknown as error:
            raise PacksGone(count=1, where=self.world.name, names=error.facts["blob"]) from error
        return {name: unsqueeze(data) for name, data in found.items()}


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the attempts of one worker stand."""

    data: Path
    gateway: Gateway
    processes: Processes
    silence_s: float
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """Beside those that are installed."""
    spare: Callable[[int], None] | None = None
    """As in `Stay`."""

    @asynccontextmanager
    async def open(self, world: World, state: SessionState, agent: Agent) -> AsyncGenerator[Surroundings]:
        """What an attempt of this session finds.

        Raises:
            WorkspaceError: its workspace cannot be opened here or now.
        """
        places = places_of(self.data, state)
        make = partial(make_places, workspace=is_ours(state))
        async with AsyncExitStack() as held:
            kind = self._kind(state)
            if kind is None:
                yield Surroundings(self.gateway, self.processes, places, make, self.silence_s)
                return
            make_places(places, workspace=False)
            stay = await self._stay(world, state, places)
            site = await held.enter_async_context(kind.open(_reference(state), stay))
            at = Places(Path(site.cwd), places.home)
            yield Surroundings(self.gateway, site.processes, at, make, self.silence_s, site)

    def _kind(self, state: SessionState) -> Kind | None:
        name = str(_reference(state).get("kind", ""))
        found = self.kinds.get(name) or find_kind(name)
        if found is None and name not in {"", "local"}:  # a directory is there without us
            known = ", ".join(sorted({*self.kinds, *entry_points(group=GROUP).names}))
            raise WorkspaceError(detail=UNKNOWN.format(kind=name, known=known or "none"))
        return found

    async def _stay(self, world: World, state: SessionState, places: Places) -> Stay:
        tree, packs = state.tree, WorldPacks(world, state.session)
        aside: Mapping[str, Any] = {}
        if tree.aside.ref:
            aside = msgspec.json.decode((await packs.get_many([tree.aside.ref]))[tree.aside.ref])
        elif tree.root or tree.turn:
            aside = tree.aside.value() or {}
        opened = state.opened or SessionOpened(state.session, "", "")
        return Stay(
            tenant=world.tenant,
            session=state.session,
            folder=opened.folder or state.session,
            fence=state.fence,
            data=self.data,
            home=places.home,
            root=tree.root,
            aside=aside,
            packs=packs,
            processes=self.processes,
            spare=self.spare,
        )


def _reference(state: SessionState) -> Mapping[str, Any]:
    return {} if state.opened is None else state.opened.workspace
