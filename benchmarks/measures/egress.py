"""What the way out of a sandbox adds to the requests that go through it.

A host that speaks TLS, the worker with the way out, and a client are three processes. The client asks the host in three
ways, in turns: straight; through a connection that is carried unseen; and through one that is ended, looked at and
given a credential. Measured are a request on a connection that stands, one with a connection of its own, and how fast
large bodies go in both directions. What a box's own end of the way adds is not in it.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from benchmarks.fetching import NAME
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.workers import ROOT
from outlast.clock import SystemClock
from outlast.workspaces.egress import (
    Allow,
    Credential,
    Network,
    Outside,
    Who,
    WorkerSecrets,
    from_env,
    network,
    open_egress,
)
from outlast.workspaces.egress.authority import open_authority

LARGE: Final = 64 * 1024 * 1024
STANDING_MS, ANEW_MS = 3.0, 15.0
"""What a credential may add to a request: little beside the way to any host that is not on this machine."""
WAYS: Final = ("straight", "unseen", "credential")


async def egress(bench: Bench) -> Sequence[Row]:
    """At most 3 ms more for a request with a credential, at most 15 ms with a connection of its own."""
    authorities = bench.directory / "authority"
    authorities.mkdir()
    pem = open_authority(authorities, [NAME], SystemClock()).pem
    async with _process("host", str(authorities)) as host, _process("client") as client:
        assert host.stdout is not None
        port = int(await host.stdout.readline())
        allowed = network([Allow(NAME, (port,), private=True)])
        secret = from_env("FORGE_TOKEN")
        keyed = network(credentials=[Credential(NAME, secret, port=port, private=True)])
        async with (
            _way(bench.directory / "unseen", allowed, pem) as unseen,
            _way(bench.directory / "keyed", keyed, pem) as proxy,
        ):
            trusts = [authorities / "authority.pem"] * 2 + [proxy.parent / "public" / "authorities.pem"]
            measuring = _Measuring(
                client, port, dict(zip(WAYS, zip(["", unseen, proxy], trusts, strict=True), strict=True))
            )
            rounds = bench.times(7, 3)
            small = await measuring.all(rounds, times=60)
            fresh = await measuring.all(rounds, times=10, anew=True)
            down = await measuring.all(rounds, times=1, size=LARGE)
            up = await measuring.all(rounds, times=1, body=LARGE)
    return [
        *_latency("a request on a standing connection", small, STANDING_MS),
        *_latency("a request on a connection of its own", fresh, ANEW_MS),
        *_speed("bytes to the sandbox", down),
        *_speed("bytes from the sandbox", up),
    ]


class _Measuring:
    def __init__(
        self, client: asyncio.subprocess.Process, port: int, ways: dict[str, tuple[Path | str, Path]]
    ) -> None:
        self._client = client
        self._port = port
        self._ways = ways

    async def all(
        self, rounds: int, *, times: int, size: int = 1, body: int = 0, anew: bool = False
    ) -> dict[str, list[float]]:
        """Seconds of each round, the median of its requests, in each way."""
        took: dict[str, list[float]] = {way: [] for way in self._ways}
        for _ in range(rounds):
            for way, (proxy, trusts) in self._ways.items():
                asked = {"proxy": str(proxy), "trusts": str(trusts), "port": self._port, "times": times}
                took[way].append(await self._one({**asked, "size": size, "body": body, "anew": anew}))
        return took

    async def _one(self, asked: dict[str, object]) -> float:
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._client.stdin.write(json.dumps(asked).encode() + b"\n")
        line = await self._client.stdout.readline()
        if not line:
            raise RuntimeError("the client ended")
        return median(json.loads(line))


def _latency(what: str, took: dict[str, list[float]], limit_ms: float) -> list[Row]:
    floor = median(took["straight"]) * 1e3
    rows: list[Row] = []
    for way in WAYS[1:]:
        added = [(one - bare) * 1e3 for one, bare in zip(took[way], took["straight"], strict=True)]
        promised = way == "credential"
        rows.append(
            Row(
                name=f"egress, {way}: added to {what}",
                world="",
                value=median(added),
                unit="ms",
                floor=floor,
                target=f"<= {limit_ms:g} ms" if promised else "",
                met=median(added) <= limit_ms if promised else None,
                spread=spread(added, 2),
                why="the floor is the whole request, straight to the host",
            )
        )
    return rows


def _speed(what: str, took: dict[str, list[float]]) -> list[Row]:
    return [
        Row(
            name=f"egress, {way}: {what}",
            world="",
            value=median([LARGE / 1e6 / one for one in took[way]]),
            unit="MB/s",
            floor=median([LARGE / 1e6 / one for one in took["straight"]]),
            ratio=median([bare / one for one, bare in zip(took[way], took["straight"], strict=True)]),
            spread=spread([LARGE / 1e6 / one for one in took[way]]),
        )
        for way in WAYS[1:]
    ]


@asynccontextmanager
async def _way(directory: Path, rules: Network, pem: bytes) -> AsyncGenerator[Path]:
    """The socket of a way out, which trusts `pem`."""

    async def resolve(_: str, __: int) -> Sequence[str]:
        return ["127.0.0.1"]

    outside = Outside(
        secrets=WorkerSecrets({"FORGE_TOKEN": "a-token-of-some-length"}),
        resolve=resolve,
        trust=lambda: ssl.create_default_context(cadata=pem.decode()),
        roots=lambda: pem,
    )
    async with open_egress(rules, Who("default", "bench"), directory, outside=outside) as found:
        yield found.ways[0].socket


@asynccontextmanager
async def _process(*argv: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    words = [sys.executable, "-m", "benchmarks.fetching", *argv]
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdin=pipe, stdout=pipe, limit=1 << 20)
    try:
        yield process
    finally:
        process.kill()
        await process.wait()
