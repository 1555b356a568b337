"""What `outlast doctor` says of where things are kept, and of the shell of virtual workspaces: by trying them."""

import os
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio

from outlast.cli.harnesses import Finding
from outlast.cli.options import Setup
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.errors import OutlastError, PacksGone, WorkspaceError
from outlast.folders import make_private
from outlast.ids import new_id
from outlast.settings import Settings
from outlast.sites import find_store, stores_of
from outlast.workspace import Command, Stay
from outlast.workspaces.virtual import VirtualKind, virtual

ROOM: Final = 2**30
"""Bytes that should be free."""
STORE_S: Final = 10.0
LEASE_S: Final = 10.0
NO_ROOM: Final = "Free some space: without room nothing is committed, and sessions wait for it."


def disks(settings: Settings) -> Iterator[Finding]:
    """Whether there is room where the World's file and the worker's own files are: a finding for each disk."""
    wanted = {"disk": settings.data}
    scheme, _, rest = settings.world_url.partition(":")
    if scheme == "sqlite" and rest:
        wanted["disk of the world"] = Path(unquote(urlsplit(rest).path)).expanduser().absolute().parent
    seen: set[int] = set()
    for what, path in wanted.items():
        at = _standing(path)
        if at.stat().st_dev not in seen:
            seen.add(at.stat().st_dev)
            yield _room(what, at, path)


def _room(what: str, at: Path, named: Path) -> Finding:
    free = shutil.disk_usage(at).free
    detail = f"{free / 2**30:.1f} GiB free at {named}"
    if not os.access(at, os.W_OK | os.X_OK):
        return Finding(what, "warning", f"{at} cannot be written", "Give this user access to it.")
    return Finding(what, "ok" if free > ROOM else "warning", detail, "" if free > ROOM else NO_ROOM)


def _standing(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


async def stores(setup: Setup) -> AsyncGenerator[Finding]:
    """Whether the stores answer that sessions keep their files in: a finding for each."""
    async with setup.world() as world:
        for url in await stores_of(world):
            yield await _store(url, world.tenant)


async def _store(url: str, tenant: str) -> Finding:
    way_out = "Sessions whose files are there wait for it; nothing that was recorded is lost."
    try:
        store = find_store({"store": url}, tenant)
        assert store is not None, "a URL names one"
        with anyio.fail_after(STORE_S):
            await store.claimants()
    except (OutlastError, TimeoutError) as error:
        said = str(error) or f"it has not answered in {STORE_S:g} s"
        return Finding("store", "warning", f"{url}: {said}", way_out)
    if urlsplit(url).scheme not in {"", "file"}:
        return Finding("store", "ok", url)
    return _directory(Path(unquote(urlsplit(url).path)), way_out)


def _directory(path: Path, way_out: str) -> Finding:
    if not path.is_dir():
        return Finding("store", "warning", f"{path} is not there", f"Bring its disk back. {way_out}")
    return _room("store", path, path)


class _NoPacks:
    """A log that holds none."""

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        raise PacksGone(count=len(names), where="the doctor", names=", ".join(names))


async def shells(setup: Setup) -> Finding:
    """Whether the shell of `virtual()` works here: by running a command in one."""
    what, hint = "virtual files", "Sessions with a virtual workspace are not advanced here; all others are."
    if find_spec("bashkit") is None:
        return Finding(what, "absent", "the package bashkit is missing", "pip install 'outlast[virtual]'")
    try:
        ran = await _echo(setup)
    except (OutlastError, OSError) as error:
        return Finding(what, "warning", str(error), hint)
    return Finding(what, "ok", f"a shell without a machine says {ran}")


async def _echo(setup: Setup) -> str:
    """What a command in a virtual workspace writes."""
    data = setup.settings.data
    locks = data / "locks"
    make_private(locks)
    async with Keeper(lambda: LEASE_S, ttl_s=LEASE_S, on_lost=lambda _: None, clock=setup.clock) as keeper:
        stay = Stay(
            tenant="doctor",
            session="doctor",
            folder=new_id("doctor"),
            fence=1,
            data=data,
            home=data,
            root="",
            aside={},
            packs=_NoPacks(),
            processes=SupervisedProcesses(locks, keeper, LEASE_S, _alone),
        )
        async with VirtualKind().open(virtual().reference(), stay) as site:
            ran = await site.run(Command("echo hello", "doctor", timeout_s=LEASE_S))
    if ran.status:
        raise WorkspaceError(detail=f"The shell ended with status {ran.status}: {ran.stderr.strip()}")
    return ran.stdout.strip()


async def _alone() -> bool:
    """Whether programs get a namespace of their own: one command needs none."""
    return False
