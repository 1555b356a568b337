"""How much longer a turn of twenty tool calls takes under a worker than in the bare program, in turns in one run.

Twenty times the model asks for the harness's own shell to read a file, then it says a word. From the start of the bare
program, or the opening of the session, to the end of the turn as it is seen: the start of the program is in both. Once
the model answers at once, which no provider does and which shows what is ours; once after half a second, as the
quickest providers do. Beside it what a call costs when the program's start is left out, and the worker's own part of
that on a processor.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare.program import Taken
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.harnesses import PACE_S, STEPS, Desk, desk_of, each_harness

LIMIT = 1.10


@dataclass(frozen=True, slots=True)
class Turn:
    """Milliseconds."""

    whole: float
    call: float
    """From one request to the next."""
    worker: float = 0.0
    """Of a call, on a processor, in the worker's process."""


async def harness_turn(bench: Bench) -> Sequence[Row]:
    """At most a tenth longer."""
    return await each_harness(bench, _of)


async def _of(bench: Bench, harness: str) -> Sequence[Row]:
    async with desk_of(bench, harness) as desk:
        await _pair(desk, "reads", 0)  # files come from the disk
        at_once = [await _pair(desk, "reads", number) for number in range(1, bench.times(10, 2) + 1)]
        paced = [await _pair(desk, "slow-reads", number) for number in range(bench.times(5, 1))]
    name = f"{harness}: turn of {STEPS} tool calls"
    calls = [ours.call - alone.call for alone, ours in at_once]
    return [
        _ratio(bench, f"{name}, the model answers at once", at_once),
        _ratio(bench, f"{name}, the model takes {PACE_S:g} s", paced),
        Row(
            name=f"{harness}: … added to a call",
            world=bench.world,
            value=median(calls),
            unit="ms",
            floor=median([alone.call for alone, _ in at_once]),
            spread=spread(calls, 1),
        ),
        Row(
            name=f"{harness}: … of a call the worker's processor time",
            world=bench.world,
            value=median([ours.worker for _, ours in at_once]),
            unit="ms",
            spread=spread([ours.worker for _, ours in at_once], 1),
        ),
    ]


async def _pair(desk: Desk, conversation: str, number: int) -> tuple[Turn, Turn]:
    (pid,) = desk.workers.workers
    alone = await _turn(desk, conversation, await desk.alone(conversation))
    before = _processor_s(pid)
    taken = await desk.ours(f"{conversation}-{number}", conversation)
    worker = (_processor_s(pid) - before) * 1e3 / STEPS
    ours = await _turn(desk, conversation, taken)
    return alone, Turn(ours.whole, ours.call, worker)


async def _turn(desk: Desk, conversation: str, taken: Taken) -> Turn:
    asked = await desk.requests(conversation, taken.began)
    if len(asked) != STEPS + 1:
        raise RuntimeError(f"{desk.harness} made {len(asked)} model requests, not {STEPS + 1}")
    return Turn((taken.ended - taken.began) * 1e3, (asked[-1].at - asked[0].at) * 1e3 / STEPS)


def _processor_s(pid: int) -> float:
    """Seconds that a process has been on a processor."""
    fields = Path("/proc", str(pid), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ratio(bench: Bench, name: str, pairs: Sequence[tuple[Turn, Turn]]) -> Row:
    ratios = [ours.whole / alone.whole for alone, ours in pairs]
    value = median(ratios)
    return Row(
        name=name,
        world=bench.world,
        value=median([ours.whole for _, ours in pairs]),
        unit="ms",
        floor=median([alone.whole for alone, _ in pairs]),
        ratio=value,
        target=f"<= {LIMIT:.2f} x bare",
        met=value <= LIMIT,
        spread=f"ratio {spread(ratios, 2)}",
        why=f"the floor is the bare program's turn; {len(pairs)} of each",
    )
