"""What the gateway adds between a harness and its model.

A scripted model server, the worker with its gateway, and a client are three processes. The client streams each answer
twice, in turns: straight from the model server, and through the gateway, where it becomes a journalled model call on
the measured World. Measured are the time to the first token, the pace of an answer of 100 frames a second (about
what the fastest providers send), and how many frames a second pass when the model says all at once.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.workers import ROOT
from outlast.adapter import MAIN, Agent, Attempt, Deny, HookAsk, Let, Resolved, TurnResult
from outlast.clock import SystemClock
from outlast.gateway import Open, open_gateway
from outlast.recovery import Abilities
from outlast.session import Session
from outlast.testing.models import Script, Step
from outlast.testing.models.spawned import spawn_models
from outlast.tool import Tool
from outlast.worker import WorkerConfig, open_worker

FIRST_LIMIT_MS = 5.0
PACE_LIMIT = 1.02
GAP_S = 0.01
WORDS = "so it was and so it is and so it will be for as long as anybody asks "

Pairs = list[tuple[tuple[float, float, int], tuple[float, float, int]]]


class Speech:
    """How the client speaks: plain requests of one lane, without hooks."""

    dialect = "anthropic"
    greets = False
    retries = False

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        return MAIN

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return request

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        return None

    async def recorded(self, *, tool: bool = False) -> None:
        pass

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        return ""

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        return HookAsk("other")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        return {}


class Asking:
    """A harness that is the client: another process, told what to ask line by line."""

    name = "asking"
    abilities = Abilities("all")

    def __init__(self, model_url: str, orders: Sequence[tuple[str, int]]) -> None:
        self._model_url = model_url
        self._orders = orders
        self.heard: dict[str, Pairs] = {}

    def versions(self) -> Mapping[str, str]:
        return {"asking": "1"}

    def settings(self) -> Mapping[str, Any]:
        return {}

    def check(self) -> Sequence[str]:
        return ()

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return Resolved(name, "harness", "safe")

    async def advance(self, attempt: Attempt) -> TurnResult:
        async with attempt.gateway.admit(attempt, Speech()) as door, _client(self._model_url, door) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            for conversation, count in self._orders:
                client.stdin.write(f"{conversation} {count}\n".encode())
                line = await client.stdout.readline()
                self.heard.setdefault(conversation, []).extend(json.loads(line))
        return TurnResult("done")


@asynccontextmanager
async def _client(model_url: str, door: Any) -> AsyncGenerator[asyncio.subprocess.Process]:
    argv = [sys.executable, "-m", "benchmarks.asking", model_url, door.base_url, door.token]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, stdin=pipe, stdout=pipe, limit=1 << 24)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def gateway(bench: Bench) -> Sequence[Row]:
    """At most 5 ms to the first token, and nothing measurable to throughput."""
    script = Script(
        conversations={
            "short": (Step(text="It is so."),),
            "paced": (Step(text=WORDS * 6, gap_s=GAP_S),),
            "flood": (Step(text=WORDS * 400),),
        }
    )
    orders = [("short", 10), ("flood", 1)]  # the first few warm up
    orders += [("short", bench.times(40, 15))] * bench.times(5, 3)
    orders += [("paced", bench.times(3, 2))] * bench.times(5, 2) + [("flood", 1)] * bench.times(7, 3)
    clock = SystemClock()
    async with (
        spawn_models(script) as models,
        bench.open() as world,
        open_gateway(upstream=Open(models.base_url), clock=clock) as ours,
    ):
        asking = Asking(models.base_url, orders)
        agent = Agent("asking", asking)
        turn = await (await Session.open(world, "asking", agent=agent)).send("go")
        async with open_worker(
            world, {"asking": agent}, ours, WorkerConfig(bench.directory / "data")
        ) as worker:
            await worker.work(until_idle=True)
        outcome = await turn.result()
        if outcome.status != "done":
            raise RuntimeError(str(outcome))
    heard = asking.heard
    return [
        _first(bench, heard["short"][10:]),
        _pace(bench, heard["paced"]),
        _flood(bench, heard["flood"][1:]),
    ]


def _first(bench: Bench, pairs: Pairs) -> Row:
    blocks = [pairs[at : at + len(pairs) // 5 or 1] for at in range(0, len(pairs), len(pairs) // 5 or 1)]
    added = [
        median([ours[0] for _, ours in block]) - median([bare[0] for bare, _ in block]) for block in blocks
    ]
    value = median([ours[0] for _, ours in pairs]) - median([bare[0] for bare, _ in pairs])
    return Row(
        name=f"gateway: added to the first token, median of {len(pairs)}",
        world=bench.world,
        value=value,
        unit="ms",
        floor=median([bare[0] for bare, _ in pairs]),
        target=f"<= {FIRST_LIMIT_MS:g} ms",
        met=value <= FIRST_LIMIT_MS,
        spread=spread(added, 2),
        why="the floor is the first token straight from the model server",
    )


def _pace(bench: Bench, pairs: Pairs) -> Row:
    ratios = [ours[1] / bare[1] for bare, ours in pairs]
    ratio = median(ratios)
    return Row(
        name=f"gateway: whole answer of {pairs[0][0][2]} frames at {1 / GAP_S:.0f} frames/s",
        world=bench.world,
        value=median([ours[1] for _, ours in pairs]),
        unit="ms",
        floor=median([bare[1] for bare, _ in pairs]),
        ratio=ratio,
        target=f"<= {PACE_LIMIT} x direct",
        met=ratio <= PACE_LIMIT,
        spread=f"ratio {spread(ratios, 3)}",
    )


def _flood(bench: Bench, pairs: Pairs) -> Row:
    ours = [heard[2] / heard[1] * 1e3 for _, heard in pairs]
    bare = [heard[2] / heard[1] * 1e3 for heard, _ in pairs]
    return Row(
        name="gateway: frames/s when the model says all at once",
        world=bench.world,
        value=median(ours),
        unit="frames/s",
        floor=median(bare),
        ratio=median([one / other for one, other in zip(ours, bare, strict=True)]),
        spread=spread(ours),
    )
