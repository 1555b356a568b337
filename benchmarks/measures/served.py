"""What is watched through the server: how soon, by how many, and what it costs to come back.

The server is a real `outlast serve` process; the watchers are connections of another, on loopback, that read what an
`EventSource` reads. This process writes, as a worker does.

* `served`: one watcher, one commit every few milliseconds. From when `commit_many` returned to when the watcher has the
  whole frame.
* `served-crowd`: 1,000 watchers of 100 sessions, while the text of one call in each of these is shown, several times a
  second. Time on a processor and memory of the server.
* `served-return`: a watcher that comes back with its last cursor to a session of 100,000 events, ten of which it has
  not seen; from the connection to the tenth. Beside it the same with 1,000 events.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from itertools import count

import anyio

from benchmarks.frame import Bench, Row, median, percentile, spread
from benchmarks.serving import Serving, crowd, serving
from outlast.codec import encode_delta, encode_records
from outlast.records import FORMAT, AttemptOpened, TurnOpened, TurnParked
from outlast.records.events import LiveDelta
from outlast.records.payload import EMPTY
from outlast.session import Session
from outlast.world import Claim, Commit, Delta, Header, Takeover, WorkerOffer, WorkerRow, World
from outlast.world.commit import make_commit

LIMIT_MS = 10.0
PAUSE_S = 0.005
SESSIONS = 100
EACH = 10
RATE = 8.0
"""Pieces of text a second in each session."""
SETTLE_S = 3.0
CORE = 1.0
MEMORY_MB = 400.0
LONG = 100_000
SHORT = 1_000
TAIL = 10
RETURN_MS = 50.0
PER_COMMIT = 20


async def served(bench: Bench) -> Sequence[Row]:
    """At most 10 ms, the median."""
    async with bench.open() as world, serving(bench) as server:
        repeats = [
            await _watched(world, server, f"watched-{repeat}", bench.times(200, 60))
            for repeat in range(bench.times(5, 3))
        ]
    acknowledged, slow = [median(waits) for waits in repeats], [percentile(waits, 0.99) for waits in repeats]
    value = median(acknowledged)
    return [
        Row(
            name="commit acknowledged -> EventSource on loopback, p50",
            world=bench.world,
            value=value,
            unit="ms",
            target=f"<= {LIMIT_MS:g} ms",
            met=value <= LIMIT_MS,
            spread=f"{spread(acknowledged, 2)}; p99 {median(slow):.2f}",
        )
    ]


async def _watched(world: World, server: Serving, name: str, commits: int) -> list[float]:
    claim = await _claimed(world, name)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(_asks(server, f"/v1/sessions/{name}/events?after=2.0"))
    await reader.readuntil(b"retry: ")
    seen: dict[int, float] = {}

    async def watch() -> None:
        while len(seen) < commits:
            line = await reader.readuntil(b"\n\n")
            if b"id: " in line:
                cursor = line.partition(b"id: ")[2].partition(b"\n")[0]
                seen[int(cursor.partition(b".")[0])] = time.monotonic()

    acknowledged: dict[int, float] = {}
    async with asyncio.timeout(60), anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        for number in range(commits):
            commit = _commit(claim, claim.seq + 1 + number, [TurnParked(1, "signal", {"number": number})])
            [refusal] = await world.commit_many([(claim.lease, commit)])
            acknowledged[commit.header.seq] = time.monotonic()
            if refusal is not None:
                raise refusal
            await asyncio.sleep(PAUSE_S)
    writer.close()
    return [(at_s - acknowledged[seq]) * 1e3 for seq, at_s in seen.items() if seq in acknowledged]


async def served_crowd(bench: Bench) -> Sequence[Row]:
    """At most one processor and 400 MB."""
    window_s = bench.times(15, 5)
    cores, memory_mb, taken_s, written = 0.0, 0.0, 1.0, [0]
    told: dict[str, float] = {}
    async with bench.open() as world, serving(bench) as server:
        names = [f"busy-{number}" for number in range(SESSIONS)]
        claims = [await _claimed(world, name) for name in names]
        paths = [f"/v1/sessions/{name}/events" for name in names]
        async with crowd(server, paths, EACH) as watchers, anyio.create_task_group() as tasks:
            for claim in claims:
                tasks.start_soon(_talk, world, claim, written)
            await asyncio.sleep(SETTLE_S)
            await watchers.next()
            before_s, began_s, written[0] = server.cpu_s(), time.monotonic(), 0
            await asyncio.sleep(window_s)
            told = await watchers.next()
            taken_s = time.monotonic() - began_s
            cores, memory_mb = (server.cpu_s() - before_s) / taken_s, server.memory_mb()
            tasks.cancel_scope.cancel()
    rate, given = written[0] / taken_s, told["events"] / taken_s
    whole = f"{rate:,.0f} events/s written, {given:,.0f}/s given to {SESSIONS * EACH:,} watchers"
    late = f"p50 {told['p50_ms']:.1f} ms, p99 {told['p99_ms']:.1f} ms after they were written"
    return [
        Row(
            name=f"processors of a server, {SESSIONS * EACH:,} watchers of {SESSIONS} sessions",
            world=bench.world,
            value=cores,
            unit="cores",
            target=f"<= {CORE:g}",
            met=cores <= CORE,
            spread=f"{whole}; {late}",
        ),
        Row(
            name=f"memory of a server, {SESSIONS * EACH:,} watchers of {SESSIONS} sessions",
            world=bench.world,
            value=memory_mb,
            unit="MB",
            target=f"<= {MEMORY_MB:g} MB",
            met=memory_mb <= MEMORY_MB,
        ),
    ]


async def _talk(world: World, claim: Claim, written: list[int]) -> None:
    """Show the text of a call, piece by piece, until cancelled; counts in `written`."""
    loop = asyncio.get_running_loop()
    next_s = loop.time() + random.Random(claim.lease.session).random() / RATE
    for number in count():
        await asyncio.sleep(max(0.0, next_s - loop.time()))
        next_s += 1 / RATE
        text = f"@{time.monotonic()}@ some more of what a model says in a moment"
        delta = Delta(encode_delta(LiveDelta(1, 1, "text", text, number * len(text))))
        await world.publish(claim.lease, claim.seq, number, [delta])
        written[0] += 1


async def served_return(bench: Bench) -> Sequence[Row]:
    """At most 50 ms."""
    async with bench.open() as world, serving(bench) as server:
        for name, events in (("long", LONG), ("short", SHORT)):
            await _fill(world, name, events)
        taken: dict[str, list[float]] = {"long": [], "short": []}
        for _ in range(bench.times(40, 10)):
            for name, waits in taken.items():
                waits.append(await _returned(world, server, name))
    value, short = median(taken["long"]), median(taken["short"])
    return [
        Row(
            name=f"coming back to a session of {LONG:,} events, {TAIL} of them new, p50",
            world=bench.world,
            value=value,
            unit="ms",
            target=f"<= {RETURN_MS:g} ms",
            met=value <= RETURN_MS,
            floor=short,
            ratio=value / short,
            spread=f"{spread(taken['long'], 1)}; floor: {SHORT:,} events",
        )
    ]


async def _fill(world: World, name: str, events: int) -> None:
    claim = await _claimed(world, name)
    for number in range(events // PER_COMMIT):
        records = [TurnParked(1, "signal", {"number": number, "at": at}) for at in range(PER_COMMIT)]
        [refusal] = await world.commit_many([(claim.lease, _commit(claim, claim.seq + 1 + number, records))])
        if refusal is not None:
            raise refusal
    await world.release(claim.lease)


async def _returned(world: World, server: Serving, name: str) -> float:
    """Milliseconds from the connection to the last event that was missed."""
    seq = (await world.get(name)).seq
    last = f"id: {seq}.{PER_COMMIT - 1}\n".encode()
    began_s = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(_asks(server, f"/v1/sessions/{name}/events?after={seq}.{PER_COMMIT - 1 - TAIL}"))
    async with asyncio.timeout(30):
        await reader.readuntil(last)
    taken_s = time.monotonic() - began_s
    writer.close()
    await writer.wait_closed()
    return taken_s * 1e3


def _asks(server: Serving, path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n"
        f"authorization: Bearer {server.token}\r\n\r\n"
    ).encode()


async def _claimed(world: World, name: str) -> Claim:
    session = await Session.open(world, name, agent="watched")
    await session.send("go")
    liveness = world.open_liveness()
    liveness.renew(WorkerRow("bench", "", 0.0), 600.0)
    liveness.close()
    opened = encode_records([AttemptOpened("bench", at_s=time.monotonic()), TurnOpened(1, "nobody", EMPTY)])
    offer = WorkerOffer("bench", frozenset({"watched"}), FORMAT, only=name)
    claim = await world.claim(offer, Takeover(opened, 2, FORMAT))
    if claim is None:
        raise RuntimeError("the session could not be claimed")
    return claim


def _commit(claim: Claim, seq: int, records: Sequence[TurnParked]) -> Commit:
    header = Header(seq, claim.lease.fence, FORMAT, len(records), turn_open=True, parked=True)
    return make_commit(header, encode_records(records))
