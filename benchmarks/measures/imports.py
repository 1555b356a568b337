"""What `import outlast` adds to the start of an interpreter: fresh processes, with and without it, in turns."""

import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.frame import Bench, Row, median, spread

LIMIT_MS = 150.0


async def imports(bench: Bench) -> Sequence[Row]:
    """At most 150 ms."""
    repeats = bench.times(15, 5)
    bare: list[float] = []
    with_it: list[float] = []
    for _ in range(repeats + 1):
        bare.append(_run("pass"))
        with_it.append(_run("import outlast"))
    added = [after - before for before, after in zip(bare[1:], with_it[1:], strict=True)]
    value = median(added)
    return [
        Row(
            name="import outlast",
            world="",
            value=value,
            unit="ms",
            floor=median(bare[1:]),
            target=f"<= {LIMIT_MS:g} ms",
            met=value <= LIMIT_MS,
            spread=spread(added),
            why="the floor is an interpreter that starts and ends",
        )
    ]


def _run(statement: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - began) * 1e3
