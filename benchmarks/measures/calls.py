"""What one durable tool call costs, beside the floor.

A turn of calls one after the other, each returning 4 KB of source text, goes through the whole engine: worker, gate,
intent, tool, outcome, batcher, World. A call is measured from the end of one tool to the beginning of the next. After
every ten calls the tool itself makes ten bare commits of the same result, which are the floor of those ten calls: disks
and neighbours change from one moment to the next. The ratio is the median over these blocks. A `never` call is two
commits, its intent and its outcome, hence two floors.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from benchmarks.floor import Floor, open_floor
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.stage import calling, carry, returning
from benchmarks.texts import source_text
from outlast.records.kinds import Policy

BYTES = 4096
BLOCK = 10
REST = {
    "sqlite": "the disk, and now and then the way to the writer's thread and back",
    "postgres": "the server, whose statement also moves the session, and the way there and back",
    "memory": "waiting for the loop",
}


async def safe(bench: Bench) -> Sequence[Row]:
    """`safe`: at most 2.0 floors."""
    return [await _call(bench, "safe", commits=1, limit=2.0)]


async def never(bench: Bench) -> Sequence[Row]:
    """`never`: at most 1.6 times two floors."""
    return [await _call(bench, "never", commits=2, limit=1.6)]


@dataclass
class Pairs:
    """Blocks of calls, each followed by as many bare commits."""

    floor: Floor
    texts: Iterator[str]
    calls: list[float] = field(default_factory=list[float])
    """Seconds of each call, the median of its block."""
    floors: list[float] = field(default_factory=list[float])
    loop: list[float] = field(default_factory=list[float])
    """Seconds on a processor of the event loop's thread, of each call."""
    _block: list[float] = field(default_factory=list[float])
    _ended: tuple[float, float] | None = None

    async def work(self) -> str:
        """The tool: note how long the call before it took."""
        if self._ended is not None:
            self._block.append(time.perf_counter() - self._ended[0])
            self.loop.append(time.thread_time() - self._ended[1])
        text = next(self.texts)
        if len(self._block) == BLOCK:
            self.calls.append(median(self._block))
            self.floors.append(median(await self.floor.commits(msgspec.json.encode(text), BLOCK)))
            self._block = []
        self._ended = time.perf_counter(), time.thread_time()
        return text


async def _call(bench: Bench, policy: Policy, *, commits: int, limit: float) -> Row:
    costs: list[float] = []
    floors: list[float] = []
    ratios: list[float] = []
    loops: list[float] = []
    overs: list[float] = []
    async with open_floor(bench) as floor, bench.open() as world:
        for repeat in range(bench.times(7, 4) + 1):
            pairs = Pairs(floor, source_text(BYTES))
            agent = calling(bench.times(400, 200), returning(pairs.work, policy))
            await carry(bench, world, agent, [f"{policy}-{repeat}"])
            if repeat:  # the first warms up
                costs.append(median(pairs.calls) * 1e6)
                loops.append(median(pairs.loop) * 1e6)
                floors.append(commits * median(pairs.floors) * 1e6)
                blocks = list(zip(pairs.calls, pairs.floors, strict=True))
                ratios.append(median([call / (commits * bare) for call, bare in blocks]))
                overs.append(median([call - commits * bare for call, bare in blocks]) * 1e6)
    ratio = median(ratios)
    of = "floor" if commits == 1 else f"{commits} floors"
    promised = bench.world != "memory"
    return Row(
        name=f"durable `{policy}` call, 4 KB result",
        world=bench.world,
        value=median(costs),
        unit="µs",
        floor=median(floors),
        ratio=ratio,
        target=f"<= {limit} x {of}" if promised else "",
        met=ratio <= limit if promised else None,
        spread=f"{spread(costs)}; ratio {spread(ratios, 2)}",
        why=_parts(median(overs), median(loops), commits, REST[bench.world]),
    )


def _parts(over: float, loop: float, commits: int, rest: str) -> str:
    """Where the time goes, and what the ratio would be on a disk that takes a millisecond."""
    slow = (over + 1000 * commits) / (1000 * commits)
    return (
        f"{over:.0f} µs more than the floor; {loop:.0f} µs of the call on the processor in the event loop's thread, "
        f"the rest {rest}; where a commit takes 1 ms, that is a ratio of {slow:.2f}"
    )
