"""The drive of an attempt: in the World, or in a store of its own."""

from collections.abc import Mapping, Sequence
from functools import partial

from outlast.drive import Packs
from outlast.workspace import Stay
from outlast.workspaces.drive.stores import StoredPacks, open_store
from outlast.workspaces.drive.tree import Drive


class BothPacks:
    """Packs of a store, and those that the World has from before there was one, or of the session that was forked."""

    def __init__(self, store: StoredPacks, world: Packs) -> None:
        self._store = store
        self._world = world

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        found = dict(await self._store.find_many(names))
        missing = [name for name in names if name not in found]
        return {**found, **await self._world.get_many(missing)} if missing else found


async def open_drive(stay: Stay, store: str = "") -> Drive:
    """The drive that an attempt's files are in.

    Args:
        stay: of the attempt, whose fence is the only one that writes from now on.
        store: a URL as of `outlast.workspaces.drive.stores.open_store`; empty: the World, with the session's commits.

    Raises:
        BadInput: the URL names no store.
        ExtraMissing: it needs a package that is not installed.
        Fenced: a newer attempt has claimed it.
        WorkspaceError: it cannot be reached.
    """
    if not store:
        return Drive(stay.packs, stay.tenant)
    packs = open_store(store, stay.tenant)
    await packs.claim(stay.folder, stay.fence)
    put = partial(packs.put_many, session=stay.folder, fence=stay.fence)
    return Drive(BothPacks(packs, stay.packs), stay.tenant, put=put)
