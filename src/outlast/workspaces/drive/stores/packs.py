"""Packs among objects: put once, read whole, held to their names.

Keys: `<tenant>/packs/<2>/<name>`, tenant and name in hexadecimal, so that stores which do not tell capitals apart do
so; and `<tenant>/fences/<session>/<fence>`, an empty object for each claim.

**One writer by fence.** A claim creates the object of its fence, which no store does twice, and then lists those of the
session: one that is greater refuses it. Whoever puts packs lists them too. A store lists what was created before, so
of two claims at least the older sees the newer, or is seen by it before it puts anything.

**Safe beside a collection.** No pack for a store is like another: random bytes stand at its head (`Drive`). So none is
ever put that is there already, is old, and that a collection may be about to remove. What a put finds there was put by
the same call a moment ago, when the answer got lost.
"""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final

import anyio

from outlast.errors import BadInput, Fenced, OutlastError, PacksGone
from outlast.groups import leaves
from outlast.ids import blob_hash
from outlast.workspaces.drive.format import broken
from outlast.workspaces.drive.stores.objects import Objects

_AT_ONCE: Final = 6
"""Requests at a time: some 24 MB."""
_FOLDER: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,255}")


class StoredPacks:
    """A `PackStore` of one tenant."""

    def __init__(self, objects: Objects, tenant: str) -> None:
        self._objects = objects
        self._tenant = tenant
        self._top = tenant.encode().hex()

    @property
    def where(self) -> str:
        """For people, without secrets."""
        return self._objects.where

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        found = await self.find_many(names)
        if gone := sorted(set(names) - found.keys()):
            raise PacksGone(count=len(gone), where=self.where, names=", ".join(gone[:5]))
        return found

    async def find_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of those that are there."""
        found: dict[str, bytes] = {}

        async def get(name: str) -> None:
            async with limit:
                data = await self._objects.find(self._key(name))
            if data is None:
                return
            if blob_hash(self._tenant, data) != name:
                raise broken(f"the pack {name} in {self.where} is not what its name says")
            found[name] = data

        limit = anyio.CapacityLimiter(_AT_ONCE)
        await _each(get, names)
        return found

    async def put_many(self, packs: Mapping[str, bytes], *, session: str, fence: int) -> None:
        async def put(name: str) -> None:
            async with limit:
                await self._objects.create(self._key(name), packs[name])

        limit = anyio.CapacityLimiter(_AT_ONCE)
        await self._refuse_older(session, fence)
        await _each(put, list(packs))

    async def claim(self, session: str, fence: int) -> None:
        await self._objects.create(f"{self._fences(session)}{fence:020}", b"")
        older = await self._refuse_older(session, fence)
        await self._objects.delete(older)

    async def claimants(self) -> frozenset[str]:
        claims = [held.key async for held in self._objects.list(f"{self._top}/fences/")]
        return frozenset(key.split("/")[-2] for key in claims if _number(key))

    async def forget(self, session: str) -> None:
        await self._objects.delete([held.key async for held in self._objects.list(self._fences(session))])

    async def _refuse_older(self, session: str, fence: int) -> list[str]:
        """The claims of this session that are older; raises `Fenced` for one that is newer."""
        listed = [held.key async for held in self._objects.list(self._fences(session))]
        claims = [key for key in listed if _number(key)]
        newest = max((_number(key) for key in claims), default=0)
        if newest > fence:
            raise Fenced(session=session, current=newest, fence=fence)
        return [key for key in claims if _number(key) < fence]

    async def names(self, *, older_s: float = 0.0) -> Sequence[str]:
        found = [
            _named(held.key)
            async for held in self._objects.list(f"{self._top}/packs/")
            if older_s <= 0 or held.age_s >= older_s
        ]
        return [name for name in found if name is not None]

    async def remove(self, names: Sequence[str]) -> None:
        await self._objects.delete([self._key(name) for name in names])

    def _key(self, name: str) -> str:
        word = name.encode().hex()
        return f"{self._top}/packs/{word[-2:]}/{word}"

    def _fences(self, session: str) -> str:
        if not _FOLDER.fullmatch(session):
            raise BadInput(detail=f"{session!r} cannot name a session's claims in a store of files.")
        return f"{self._top}/fences/{session}/"


async def _each(act: Callable[[str], Coroutine[None, None, None]], names: Sequence[str]) -> None:
    """All at once; the first error is that of the whole."""
    try:
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(act, name)
    except BaseExceptionGroup as group:
        for error in leaves(group):
            if isinstance(error, OutlastError):
                raise error from error.__cause__
        raise


def _number(key: str) -> int:
    word = key.rpartition("/")[2]
    return int(word) if word.isascii() and word.isdecimal() else 0


def _named(key: str) -> str | None:
    """The pack that an object is; None: it is none of ours."""
    try:
        return bytes.fromhex(key.rpartition("/")[2]).decode()
    except ValueError:
        return None
