"""What a sandbox adds to the start of a program: bubblewrap, beside the bare program, in turns."""

import time
from collections.abc import Sequence

import anyio

from benchmarks.frame import Bench, Row, median, spread
from outlast.sandbox import JobAsk, Spec
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap

LIMIT_MS = 50.0
PROGRAM = ["true"]


async def sandbox(bench: Bench) -> Sequence[Row]:
    """At most 50 ms over a bare process."""
    provider = Bubblewrap(bench.directory)
    bare: list[float] = []
    first: list[float] = []
    second: list[float] = []
    for number in range(bench.times(40, 10) + 1):
        began = time.perf_counter()
        await anyio.run_process(PROGRAM)
        bare.append((time.perf_counter() - began) * 1e3)
        began = time.perf_counter()
        async with provider.attach(Spec(f"box-{number}"), 1) as box:
            await (await box.begin(JobAsk("first", PROGRAM))).wait()
            first.append((time.perf_counter() - began) * 1e3)
            began = time.perf_counter()
            await (await box.begin(JobAsk("second", PROGRAM))).wait()
            second.append((time.perf_counter() - began) * 1e3)
    added = [boxed - alone for boxed, alone in zip(first[1:], bare[1:], strict=True)]
    value = median(added)
    return [
        Row(
            name="sandbox: start",
            world="",
            value=value,
            unit="ms",
            floor=median(bare[1:]),
            target=f"<= {LIMIT_MS:g} ms",
            met=value <= LIMIT_MS,
            spread=spread(added),
            why="over the floor, a program that starts and ends without one",
        ),
        Row(
            name="sandbox: program in one that stands",
            world="",
            value=median(second[1:]),
            unit="ms",
            floor=median(bare[1:]),
            spread=spread(second[1:]),
            why="the floor is the same program without a sandbox",
        ),
    ]
