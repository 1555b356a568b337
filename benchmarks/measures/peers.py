"""What a durable step costs with other libraries, on the same server, in the same run.

Each peer does the same work by a script of `benchmarks/peers`, in an environment of its own below `.cache`, on a
database of its own: a line of 200 steps that return 4 KB, and 32 lines of 20 at once. What a step promises differs:
each script says it in its first lines. The floor, one durable insert of the same bytes, is taken before and after each.
"""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from benchmarks.floor import PostgresFloor, open_postgres_floor
from benchmarks.frame import Bench, Row, median, spread
from benchmarks.texts import random_text
from benchmarks.workers import ROOT
from outlast.worlds.postgres.database import driver

BYTES = 4096
FLOORS = 200
INSTALL_S = 120.0
RUN_S = 90.0


@dataclass(frozen=True, slots=True)
class Peer:
    """Another library, and what must be installed to run it."""

    name: str
    script: str
    packages: tuple[str, ...]


PEERS = (
    Peer("DBOS", "dbos", ("dbos==3.4.0",)),
    Peer("Absurd", "absurd", ("absurd-sdk==0.5.1", "absurdctl==0.5.1")),
    Peer(
        "LangGraph",
        "langgraph",
        ("langgraph==1.2.24", "langgraph-checkpoint-postgres==3.2.0", "psycopg[binary,pool]==3.3.9"),
    ),
    Peer("pydantic-ai on DBOS", "pydantic_ai", ("pydantic-ai-slim[dbos]==2.68.0", "dbos==3.4.0")),
)


class Told(msgspec.Struct):
    """What a script prints."""

    version: str
    steps_s: list[float]
    rates: list[float]


async def peers(bench: Bench) -> Sequence[Row]:
    """Nothing is promised for others."""
    rows: list[Row] = []
    body = next(random_text(BYTES)).encode()
    async with open_postgres_floor(bench.server) as floor:
        for peer in PEERS:
            try:
                python = await asyncio.to_thread(_environment, peer)
            except (OSError, subprocess.SubprocessError) as error:
                click.echo(f"SKIPPED {peer.name}: it could not be installed: {error}", err=True)
                continue
            rows += await _measured(bench, peer, python, floor, body)
    return rows


async def _measured(bench: Bench, peer: Peer, python: Path, floor: PostgresFloor, body: bytes) -> list[Row]:
    database = await _database(bench, peer)
    floors = await floor.commits(body, FLOORS)
    rate_before = await floor.grouped(body, FLOORS * 4, 32)
    told = await asyncio.to_thread(_run, python, peer, database, bench.times(3, 1))
    floors += await floor.commits(body, FLOORS)
    rate = median([rate_before, await floor.grouped(body, FLOORS * 4, 32)])
    steps, bare = [each * 1e6 for each in told.steps_s], median(floors) * 1e6
    return [
        Row(
            name=f"{peer.name} {told.version}: durable step, 4 KB result",
            world=bench.world,
            value=median(steps),
            unit="µs",
            floor=bare,
            ratio=median(steps) / bare,
            spread=spread(steps),
        ),
        Row(
            name=f"{peer.name} {told.version}: 32 x 20 steps, 4 KB",
            world=bench.world,
            value=median(told.rates),
            unit="steps/s",
            floor=rate,
            ratio=median(told.rates) / rate,
            spread=spread(told.rates),
        ),
    ]


def _environment(peer: Peer) -> Path:
    """The interpreter of an environment that has what the peer needs; made once."""
    uv = shutil.which("uv") or str(ROOT / ".cache" / "uv" / "bin" / "uv")
    where = ROOT / ".cache" / "peers" / peer.script
    python, stamp = where / "bin" / "python", where / "installed"
    wanted = "\n".join(peer.packages)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _quietly(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(where))
        _quietly(uv, "pip", "install", "--quiet", "--python", str(python), *peer.packages)
        stamp.write_text(wanted, encoding="utf-8")
    return python


def _quietly(*words: str) -> None:
    subprocess.run(words, check=True, timeout=INSTALL_S, stdin=subprocess.DEVNULL)


async def _database(bench: Bench, peer: Peer) -> str:
    """An empty database for the peer alone."""
    name = f"peer_{peer.script}"
    connection = await driver.connect(bench.server)
    try:
        await connection.execute(f"create database {name}")
    finally:
        await connection.close()
    return f"{bench.server.rpartition('/')[0]}/{name}"


def _run(python: Path, peer: Peer, database: str, repeats: int) -> Told:
    script = ROOT / "benchmarks" / "peers" / f"with_{peer.script}.py"
    done = subprocess.run(
        [str(python), str(script), database, str(repeats)],
        check=False,
        timeout=RUN_S,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    if done.returncode:
        raise RuntimeError(f"{peer.name} ended with {done.returncode}; its standard error says why")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Told)
