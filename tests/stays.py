"""Stays of sites that tests open: real supervised processes, packs in memory."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from outlast.adapter import Processes
from outlast.clock import SystemClock
from outlast.drive import Packs
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.errors import PacksGone
from outlast.workspace import Stay


class NoPacks:
    """A log that holds none."""

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        raise PacksGone(count=len(names), where="nothing", names=", ".join(names))


@asynccontextmanager
async def supervised(directory: Path) -> AsyncGenerator[SupervisedProcesses]:
    """Processes as a worker starts them, under a lease that stands."""
    keeper = Keeper(lambda: 10.0, ttl_s=10.0, on_lost=lambda _: None, clock=SystemClock())
    async with keeper:
        yield SupervisedProcesses(directory / "locks", keeper, 10.0, _no_namespace)


def stay_at(
    directory: Path,
    processes: Processes,
    *,
    fence: int = 1,
    root: str = "",
    aside: Mapping[str, Any] | None = None,
    packs: Packs | None = None,
) -> Stay:
    """The stay of a session of this directory."""
    return Stay(
        tenant="default",
        session="session",
        folder="session-abcdefghijklmnop",
        fence=fence,
        data=directory,
        home=directory / "home",
        root=root,
        aside=aside or {},
        packs=packs or NoPacks(),
        processes=processes,
    )


async def _no_namespace() -> bool:
    return False
