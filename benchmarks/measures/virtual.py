"""A command in a virtual workspace, and what it changed made ready to be committed."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from benchmarks.frame import Bench, Row, median, percentile, spread
from outlast.clock import SystemClock
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.errors import PacksGone
from outlast.workspace import Command, Site, Stay
from outlast.workspaces.virtual import VirtualKind, virtual

LIMIT_MS = 5.0


async def virtual_exec(bench: Bench) -> Sequence[Row]:
    """At most 5 ms for a command and its capture, 500 files beside it."""
    repeats = bench.times(400, 50)
    return [
        await _exec(bench.below("few"), 500, repeats, LIMIT_MS),
        await _exec(bench.below("many"), 5_000, repeats // 4, None),
        await _anew(bench.below("anew"), bench.times(20, 5)),
    ]


async def _exec(bench: Bench, files: int, repeats: int, limit_ms: float | None) -> Row:
    runs: list[float] = []
    both: list[float] = []
    async with _site(bench) as (site, packs):
        await _furnish(site, files)
        for number in range(repeats + 20):
            began = time.perf_counter()
            await site.run(Command(f"echo {number} >> d{number % 50}/f1", f"job-{number}"))
            ran = time.perf_counter()
            await _keep(site, packs)
            if number >= 20:
                runs.append((ran - began) * 1e3)
                both.append((time.perf_counter() - began) * 1e3)
    value = median(both)
    return Row(
        name=f"virtual: a command and its capture, {files:,} files",
        world="",
        value=value,
        unit="ms",
        target="" if limit_ms is None else f"<= {limit_ms:g} ms",
        met=None if limit_ms is None else value <= limit_ms,
        spread=f"p95 {percentile(both, 0.95):.1f}",
        why=f"the command alone {median(runs):.1f} ms; one line appended to a file, in the shell's own process",
    )


async def _anew(bench: Bench, repeats: int) -> Row:
    took: list[float] = []
    async with _site(bench) as (site, packs):
        await _furnish(site, 500)
        await _keep(site, packs)
        for number in range(repeats):
            await site.run(Command("sleep 9", f"cut-{number}", timeout_s=0.01))
            began = time.perf_counter()
            await site.run(Command(":", f"job-{number}"))
            took.append((time.perf_counter() - began) * 1e3)
    return Row(
        name="virtual: a command after one that was killed, 500 files",
        world="",
        value=median(took),
        unit="ms",
        spread=spread(took),
        why="a supervisor, a process, the files out of their packs, the command",
    )


async def _furnish(site: Site, files: int) -> None:
    text = (
        "for d in $(seq 0 49); do mkdir d$d; "
        f"for f in $(seq {files // 50}); do echo file $d $f > d$d/f$f; done; done"
    )
    ran = await site.run(Command(text, "furnish"))
    assert ran.status == 0, ran


async def _keep(site: Site, packs: "_Packs") -> None:
    capture = await site.capture()
    assert capture is not None
    packs.held.update(capture.packs)
    site.captured(capture.root)


class _Packs:
    """A log in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        if missing := [name for name in names if name not in self.held]:
            raise PacksGone(count=len(missing), where="memory", names=", ".join(missing[:5]))
        return {name: self.held[name] for name in names}


@asynccontextmanager
async def _site(bench: Bench) -> AsyncGenerator[tuple[Site, _Packs]]:
    keeper = Keeper(lambda: 10.0, ttl_s=10.0, on_lost=lambda _: None, clock=SystemClock())
    packs = _Packs()
    async with keeper:
        stay = Stay(
            tenant="default",
            session="bench",
            folder="bench",
            fence=1,
            data=bench.directory,
            home=bench.directory,
            root="",
            aside={},
            packs=packs,
            processes=SupervisedProcesses(bench.directory / "locks", keeper, 10.0, _no_namespace),
        )
        async with VirtualKind().open(virtual().reference(), stay) as site:
            yield site, packs


async def _no_namespace() -> bool:
    return False
