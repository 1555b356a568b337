"""How much later a harness's first word is seen under a worker than from the bare program, in turns in one run.

Both are started in a fresh home, with the flags and files that the adapter gives them (`benchmarks/bare` says what is
left out of the bare one: gates, mirror, hooks, our tools), and asked to run one shell command between two texts. The
bare program asks the scripted model itself, and its words are seen in its own output; under a worker they are seen by
somebody who follows the session from another process. Two moments are taken of each turn: the first word after the
prompt, with the start of the program in it, and the first word after the tool has ended, in a program that runs: the
tool is `date`, and the request that carries what it said tells when that was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.bare.program import Taken
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.harnesses import EARLY, LATE, Desk, desk_of, each_harness

LIMIT_MS = 10.0
STARTING = (
    "the time until its first request is the claim, the attempt's commit, a home with the program's files, the start "
    "below a supervisor, and the hello of its hooks; the gateway's own part is the row of the running program"
)


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of one turn."""

    request: float
    """From the prompt to the first request."""
    first: float
    """From the prompt to the first word."""
    next_request: float
    """From the tool's end to the request that carries its result."""
    next_first: float
    """From the tool's end to the first word after it."""


async def harness_first_token(bench: Bench) -> Sequence[Row]:
    """At most 10 ms, the median."""
    return await each_harness(bench, _of)


async def _of(bench: Bench, harness: str) -> Sequence[Row]:
    pairs: list[tuple[Times, Times]] = []
    async with desk_of(bench, harness) as desk:
        for number in range(bench.times(20, 3) + 1):
            alone = await _times(desk, await desk.alone("clock", [EARLY, LATE]))
            ours = await _times(desk, await desk.ours(f"first-{number}", "clock", [EARLY, LATE]))
            pairs.append((alone, ours))
    del pairs[0]  # files come from the disk
    return [
        _row(
            bench,
            f"{harness}: prompt -> first word, added, median of {len(pairs)}",
            pairs,
            lambda one: one.first,
            STARTING,
        ),
        _row(bench, f"{harness}: … of that until its first request", pairs, lambda one: one.request),
        _row(
            bench,
            f"{harness}: tool's end -> first word, added",
            pairs,
            lambda one: one.next_first,
            "in a running program",
        ),
        _row(bench, f"{harness}: … of that until the next request", pairs, lambda one: one.next_request),
    ]


async def _times(desk: Desk, taken: Taken) -> Times:
    asked = await desk.requests("clock", taken.began)
    told = await desk.told_at(asked[-1])
    spans = (
        asked[0].at - taken.began,
        taken.shown[EARLY] - taken.began,
        asked[-1].at - told,
        taken.shown[LATE] - told,
    )
    return Times(*(span * 1e3 for span in spans))


def _row(
    bench: Bench,
    name: str,
    pairs: Sequence[tuple[Times, Times]],
    part: Callable[[Times], float],
    why: str = "",
) -> Row:
    added = [part(ours) - part(alone) for alone, ours in pairs]
    value = median(added)
    return Row(
        name=name,
        world=bench.world,
        value=value,
        unit="ms",
        floor=median([part(alone) for alone, _ in pairs]),
        target=f"<= {LIMIT_MS:g} ms" if why else "",
        met=value <= LIMIT_MS if why else None,
        spread=spread(added),
        why=why,
    )
