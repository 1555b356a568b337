"""How soon a watcher in another process has the event of a commit.

This process claims a session and commits one record every few milliseconds; another follows the session, as
`outlast follow` does. Measured from when `commit_many` returned, which is when the commit is durable and acknowledged,
to when the other process has the decoded event; beside it from when the commit began.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

from benchmarks.frame import Bench, Row, median, percentile, spread
from benchmarks.workers import ROOT
from outlast.codec import encode_records
from outlast.records import FORMAT, AttemptOpened, TurnOpened, TurnParked
from outlast.records.payload import EMPTY
from outlast.session import Session
from outlast.world import Claim, Commit, Header, Takeover, WorkerOffer, WorkerRow, World
from outlast.world.commit import make_commit

LIMIT_MS = 2.0
PAUSE_S = 0.005


async def watcher(bench: Bench) -> Sequence[Row]:
    """At most 2 ms, the median."""
    async with bench.open() as world:
        medians = [
            await _watched(bench, world, f"watched-{repeat}", bench.times(200, 60))
            for repeat in range(bench.times(5, 3))
        ]
    acknowledged, begun, slow = (list(column) for column in zip(*medians, strict=True))
    value = median(acknowledged)
    return [
        Row(
            name="commit acknowledged -> event in another process, p50",
            world=bench.world,
            value=value,
            unit="ms",
            target=f"<= {LIMIT_MS:g} ms",
            met=value <= LIMIT_MS,
            spread=f"{spread(acknowledged, 2)}; p99 {median(slow):.2f}",
        ),
        Row(
            name="commit begun -> event in another process, p50",
            world=bench.world,
            value=median(begun),
            unit="ms",
            spread=spread(begun, 2),
        ),
    ]


async def _watched(bench: Bench, world: World, name: str, commits: int) -> tuple[float, float, float]:
    claim = await _claimed(world, name)
    argv = [sys.executable, "-m", "benchmarks.watching", bench.url, name, str(commits + 2)]
    process = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    moments: dict[int, tuple[float, float]] = {}
    for number in range(commits):
        commit = _commit(claim, claim.seq + 1 + number, number)
        began_s = time.monotonic()
        [refusal] = await world.commit_many([(claim.lease, commit)])
        moments[commit.header.seq] = (began_s, time.monotonic())
        if refusal is not None:
            raise refusal
        await asyncio.sleep(PAUSE_S)
    async with asyncio.timeout(30):
        said = await process.stdout.read()
        await process.wait()
    await world.release(claim.lease)
    seen = [(int(seq), float(at_s)) for seq, at_s in (line.split() for line in said.decode().splitlines())]
    waits = [
        ((at_s - moments[seq][1]) * 1e3, (at_s - moments[seq][0]) * 1e3)
        for seq, at_s in seen
        if seq in moments
    ]
    acknowledged = [wait for wait, _ in waits]
    return median(acknowledged), median([wait for _, wait in waits]), percentile(acknowledged, 0.99)


async def _claimed(world: World, name: str) -> Claim:
    session = await Session.open(world, name, agent="watched")
    await session.send("go")
    liveness = world.open_liveness()
    liveness.renew(WorkerRow("bench", "", 0.0), 600.0)
    liveness.close()
    opened = encode_records([AttemptOpened("bench", at_s=time.monotonic())])
    offer = WorkerOffer("bench", frozenset({"watched"}), FORMAT, only=name)
    claim = await world.claim(offer, Takeover(opened, 1, FORMAT))
    if claim is None:
        raise RuntimeError("the session could not be claimed")
    return claim


def _commit(claim: Claim, seq: int, number: int) -> Commit:
    """A commit with one record that has an event: first the turn is opened, then it is parked again and again."""
    record = TurnParked(1, "signal", {"number": number}) if number else TurnOpened(1, "nobody", EMPTY)
    body = encode_records([record])
    header = Header(seq, claim.lease.fence, FORMAT, 1, turn_open=True, parked=bool(number))
    return make_commit(header, body)
