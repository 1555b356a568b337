"""How much memory a worker needs that has ten sessions of a harness open.

Ten turns, each with three tool calls behind it and one under way, in one worker. Measured is what of the worker's
process is resident; beside it all of ours that runs for the sessions, the worker and the supervisors of its programs,
with what they share divided among them (PSS). The programs themselves are not in it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.frame import Bench, Row
from benchmarks.harnesses import Desk, desk_of, each_harness, prompt

LIMIT_MB = 120.0
SESSIONS = 10
ANSWER_S = 240.0
SUPERVISORS = (b"supervise.py", b"outlast.cli")
"""In the command lines of processes that are ours."""


async def harness_memory(bench: Bench) -> Sequence[Row]:
    """At most 120 MB."""
    return await each_harness(bench, _of)


async def _of(bench: Bench, harness: str) -> Sequence[Row]:
    count = bench.times(SESSIONS, 3)
    async with desk_of(bench, harness) as desk:
        (pid,) = desk.workers.workers
        idle = _status(pid, "VmRSS")
        names = [f"open-{number}" for number in range(count)]
        sessions = [await desk.open(name) for name in names]
        for session in sessions:
            await session.send(prompt("held"))
        await _all_hold(desk, set(names))
        resident = _status(pid, "VmRSS")
        ours = list(_ours(desk.workers.workers[pid].supervisor.pid))
        shared = sum(map(_pss, ours))
        for session in sessions:
            await session.cancel()
        for session in sessions:
            await session.result(1)
    return [
        Row(
            name=f"{harness}: worker with {count} sessions open, resident",
            world=bench.world,
            value=resident,
            unit="MB",
            floor=idle,
            target=f"<= {LIMIT_MB:g} MB",
            met=resident <= LIMIT_MB,
            why="the floor is the same worker before its first session",
        ),
        Row(
            name=f"{harness}: … with the supervisors, {len(ours)} processes",
            world=bench.world,
            value=shared,
            unit="MB",
        ),
    ]


async def _all_hold(desk: Desk, names: set[str]) -> None:
    while names:
        began = await desk.workers.ear.next(lambda call: call.session in names, ANSWER_S)
        names.discard(began.session)


def _ours(root: int) -> Iterator[int]:
    """The worker's supervisor and whatever of ours runs below it."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)):
            below.setdefault(parent, []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += below.get(pid, [])
        if any(word in _command(pid) for word in SUPERVISORS):
            yield pid


def _parent(entry: Path) -> int:
    try:
        return int(
            (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        )
    except (OSError, IndexError):
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""


def _status(pid: int, field: str) -> float:
    for line in Path("/proc", str(pid), "status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/{pid}/status has no {field}")


def _pss(pid: int) -> float:
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6
