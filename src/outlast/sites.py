"""What an attempt finds on its machine: its places, how programs are started, and the session's workspace.

The kind of a workspace is found by the word that stands in its reference, among the entry points of the group
`outlast.workspaces`, so that third parties can add theirs; and so is the store of its packs, if its reference names
one, by the scheme of the URL among those of `outlast.stores`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

import msgspec

from outlast.adapter import Agent, Gateway, Places, Processes
from outlast.drive import OpenStore, Packs, PackStore
from outlast.engine.attempt import Surroundings
from outlast.engine.batch import patiently
from outlast.engine.load import load_state
from outlast.engine.places import empty_of, is_ours, make_empty, make_places, places_of
from outlast.errors import (
    AttemptLost,
    BlobUnknown,
    Fenced,
    PacksGone,
    SessionErased,
    SessionUnknown,
    WorkspaceError,
)
from outlast.fold import SessionState, records_of
from outlast.offering import Offers
from outlast.plugins import brought
from outlast.records import FilesKept, Forked, SessionOpened
from outlast.squeezing import unsqueeze
from outlast.workspace import Kind, LendsShell, Note, OpenKind, Stay
from outlast.world import World

GROUP: Final = "outlast.workspaces"
STORES: Final = "outlast.stores"
NO_STORE: Final = (
    "The files of this session are in a store at {url}, and nothing that is installed opens one of its kind (known: "
    "{known}). Install the package that brings it, where the worker runs."
)
NO_ROOM: Final = (
    "The session's directory {place} cannot be made: {why}. Give this user room and access there; the session goes on "
    "by itself."
)
UNKNOWN: Final = (
    "This session works in a workspace of the kind {kind!r}, which this installation does not have (it has {known}). "
    "Install the package that brings it, where the worker runs."
)


def find_kind(kind: str) -> Kind | None:
    """The kind of workspaces of this name; None if nothing that is installed brings it.

    Raises:
        ExtraMissing: it needs a package that is not installed.
    """
    points = brought(GROUP)
    return cast("OpenKind", points[kind].load())() if kind in points.names else None


async def forget_site(opened: SessionOpened, session: str, data: Path, tenant: str) -> None:
    """Remove what the workspace of an erased session has kept on this machine, and its claims of a store.

    Raises:
        OutlastError: it cannot be removed, or nobody here knows how.
    """
    kind = find_kind(str(opened.workspace.get("kind", "")))
    if kind is not None:
        await kind.forget(opened.workspace, opened.folder or session, data)
    store = find_store(opened.workspace, tenant)
    if store is not None:
        await store.forget(opened.folder or session)


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


def find_store(reference: Mapping[str, Any], tenant: str) -> PackStore | None:
    """The store that a workspace's reference names; None: its packs are in the World.

    Raises:
        WorkspaceError: nothing that is installed opens it.
        ExtraMissing: it needs a package that is not installed.
        BadInput: there can be no such store.
    """
    url = str(reference.get("store", ""))
    if not url:
        return None
    points = brought(STORES)
    scheme = urlsplit(url).scheme or "file"
    if scheme not in points.names:
        raise WorkspaceError(detail=NO_STORE.format(url=url, known=", ".join(sorted(points.names))))
    return cast("OpenStore", points[scheme].load())(url, tenant)


@dataclass(frozen=True, slots=True)
class StorePacks:
    """Packs of a store, and those that the World has: from before there was one."""

    store: PackStore
    world: Packs

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        found = dict(await self.store.find_many(names))
        missing = [name for name in names if name not in found]
        try:
            return {**found, **await self.world.get_many(missing)} if missing else found
        except PacksGone as error:
            raise PacksGone(
                count=len(missing), where="the store that its workspace names", names=", ".join(missing[:5])
            ) from error


async def packs_of(world: World, session: str) -> Packs:
    """Where the files of a session can be read, without holding it. Raises as `find_store` does."""
    store, packs = find_store(await _workspace_of(world, session), world.tenant), WorldPacks(world, session)
    return packs if store is None else StorePacks(store, packs)


async def _workspace_of(world: World, session: str) -> Mapping[str, Any]:
    """The reference of the workspace that a session works in; of a fork that is not what its log begins with."""
    state = await load_state(world, session, 0, 1)
    if state.opened is not None and state.opened.session != session:
        state = await load_state(world, session, (await world.get(session)).snapshot_seq)
    return _reference(state)


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What a session's log says of its files in one place: a fork may work in another than its past did."""

    session: str
    folder: str
    """As the session is called in a store."""
    store: str
    """The URL of the store that has them; empty: the World has."""
    roots: Sequence[str]
    """At whatever commit, each once."""


async def kept_files(world: World) -> AsyncGenerator[KeptFiles]:
    """What the logs of this tenant say of files: what a collection of a store must leave.

    Reads all logs. A list of sessions has those first that changed last, so that one may move past whoever reads it; it
    is read again until it has no session more.
    """
    seen: set[str] = set()
    while fresh := [session for session in await _sessions(world) if session not in seen]:
        for session in fresh:
            seen.add(session)
            with suppress(SessionErased, SessionUnknown):
                for kept in await _files_of(world, session):
                    yield kept


async def stores_of(world: World) -> Sequence[str]:
    """The URLs of the stores that sessions of this tenant keep their files in, each once."""
    found: dict[str, None] = {}
    for session in await _sessions(world):
        with suppress(SessionErased, SessionUnknown):
            url = str((await _workspace_of(world, session)).get("store", ""))
            if url and not any(same_store(url, other) for other in found):
                found[url] = None
    return list(found)


async def kept_roots(world: World, store: str | None = None) -> AsyncGenerator[str]:
    """Every root that a log of this tenant names, at whatever commit (`kept_files`).

    Args:
        store: only those of sessions whose files are in the store at this URL.
    """
    async for kept in kept_files(world):
        if store is None or same_store(store, kept.store):
            for root in kept.roots:
                yield root


def same_store(one: str, other: str) -> bool:
    """Whether two URLs name the same store."""
    return _written(one) == _written(other)


def _written(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme in {"", "file"} and url:
        return str(Path(unquote(parts.path) if parts.scheme else url))
    return url.rstrip("/")


async def _sessions(world: World) -> Sequence[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await world.list(after=after, limit=200)
        found += [head.session for head in page.sessions]
        if (after := page.next) is None:
            return found


async def _files_of(world: World, session: str) -> Sequence[KeptFiles]:
    roots: dict[str, dict[str, None]] = {}
    folder, store, seq = session, "", 0
    while commits := await world.commits(session, seq):
        for commit in commits:
            seq = commit.header.seq
            for record in records_of(session, commit):
                match record:
                    case SessionOpened():
                        folder, store = record.folder or session, str(record.workspace.get("store", ""))
                    case Forked():
                        folder = record.folder
                        store = str(record.workspace.get("store", "")) if record.workspace else store
                    case FilesKept() if record.root:
                        roots.setdefault(store, {})[record.root] = None
                    case _:
                        pass
    roots.setdefault(store, {})
    return [KeptFiles(session, folder, url, list(found)) for url, found in roots.items()]


async def _put(store: PackStore, session: str, fence: int, packs: Mapping[str, bytes]) -> None:
    try:
        await store.put_many(packs, session=session, fence=fence)
    except Fenced as error:
        raise AttemptLost(str(error)) from error


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
    async def open(
        self, world: World, state: SessionState, agent: Agent, note: Note
    ) -> AsyncGenerator[Surroundings]:
        """What an attempt of this session finds.

        Args:
            note: is told what its workspace asks of the network.

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
            try:
                make_places(places, workspace=False)
            except OSError as error:
                raise WorkspaceError(detail=NO_ROOM.format(place=places.home, why=error.strerror)) from error
            stay = await self._stay(world, state, places, note)
            site = await held.enter_async_context(kind.open(_reference(state), stay))
            if not site.hosts_programs and isinstance(agent.adapter, Offers):
                # Its program has none of its own tools: it runs beside the files, and reaches them through the worker.
                at = empty_of(places)
                yield Surroundings(self.gateway, self.processes, at, make_empty, self.silence_s, site)
                return
            shell = site.shell if isinstance(site, LendsShell) else ""
            at = Places(Path(site.cwd), places.home, shell)
            yield Surroundings(self.gateway, site.processes, at, make, self.silence_s, site)

    def _kind(self, state: SessionState) -> Kind | None:
        name = str(_reference(state).get("kind", ""))
        found = self.kinds.get(name) or find_kind(name)
        if found is None and name not in {"", "local"}:  # a directory is there without us
            known = ", ".join(sorted({*self.kinds, *brought(GROUP).names}))
            raise WorkspaceError(detail=UNKNOWN.format(kind=name, known=known or "none"))
        return found

    async def _address(self) -> str:
        return await self.gateway.address()

    async def _stay(self, world: World, state: SessionState, places: Places, note: Note) -> Stay:
        tree, packs = state.tree, WorldPacks(world, state.session)
        aside: Mapping[str, Any] = {}
        if tree.aside.ref:
            aside = msgspec.json.decode((await packs.get_many([tree.aside.ref]))[tree.aside.ref])
        elif tree.root or tree.turn:
            aside = tree.aside.value() or {}
        opened = state.opened or SessionOpened(state.session, "", "")
        folder = opened.folder or state.session
        store = find_store(opened.workspace, world.tenant)
        if store is not None:
            await store.claim(folder, state.fence)
        return Stay(
            tenant=world.tenant,
            session=state.session,
            folder=folder,
            fence=state.fence,
            data=self.data,
            home=places.home,
            root=tree.root,
            aside=aside,
            packs=packs if store is None else StorePacks(store, packs),
            put=None if store is None else partial(_put, store, folder, state.fence),
            processes=self.processes,
            spare=self.spare,
            note=note,
            gateway=self._address,
        )


def _reference(state: SessionState) -> Mapping[str, Any]:
    return {} if state.opened is None else state.opened.workspace
