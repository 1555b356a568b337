"""What every measurement is given, and the row that it gives back."""

import re
import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.opening import open_world
from outlast.world import World
from outlast.worlds.memory import open_memory


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    world: str
    """Empty where no World takes part."""
    value: float
    unit: str
    target: str = ""
    """Empty: nothing is promised, the figure is there to compare with."""
    met: bool | None = None
    floor: float | None = None
    """In the same unit: what the same work costs without outlast."""
    ratio: float | None = None
    """Value to floor, the median of pairs taken one after the other."""
    spread: str = ""
    """Over the repeats."""
    why: str = ""
    """Of a target that was missed; of any other row, what it says."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One run: where files may lie, which World is measured, how long it may take."""

    directory: Path
    """Empty, on the disk that is measured; of one measurement only."""
    world: str
    quick: bool
    server: str = ""
    """Where the Postgres is that a run on `postgres` is given; empty in others."""
    harnesses: Sequence[str] = ()
    """Which are measured by those measurements that take each by itself."""

    def times(self, usual: int, quick: int) -> int:
        """How often something is repeated in this run."""
        return quick if self.quick else usual

    @property
    def file(self) -> Path:
        """Where a World on disk lies."""
        return self.directory / "world.db"

    @property
    def url(self) -> str:
        """Of the World that is measured."""
        if self.world == "postgres":
            return f"{self.server}?schema={self.schema}"
        return "memory:" if self.world == "memory" else f"{self.world}:{self.file}"

    @property
    def schema(self) -> str:
        """Of this measurement only, as its directory is."""
        return "s_" + re.sub(r"[^a-z0-9]", "_", "_".join(self.directory.parts[-2:]).lower())[-46:]

    def below(self, name: str) -> "Bench":
        """A place of its own for a part of the measurement: another directory, and with it an empty World."""
        there = replace(self, directory=self.directory / name)
        there.directory.mkdir()
        return there

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[World]:
        """The World that is measured."""
        if self.world == "memory":
            async with open_memory() as world:
                yield world
        else:
            async with open_world(self.url) as world:
                yield world


@dataclass(frozen=True, slots=True)
class Measure:
    """A measurement by its name on the command line."""

    name: str
    run: Callable[[Bench], Awaitable[Sequence[Row]]]
    worlds: frozenset[str] = frozenset({"sqlite", "memory"})
    """In which it means something."""
    per_harness: bool = False
    """Of each harness by itself: it takes long, and is run only where it, or a harness, is named."""


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The least and the greatest of some repeats."""
    return f"{min(values):,.{digits}f}–{max(values):,.{digits}f}"


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which `part` of `values` lies; the greatest for 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


median = statistics.median
