"""Real workers on a real store: victims that are struck at a spot, and an heir that lives all the time."""

import asyncio
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from outlast.adapter import Agent
from outlast.adapters.scripted import Scripted
from outlast.clock import SystemClock
from outlast.engine.processes import supervisor_argv
from outlast.fold import fold, records_of
from outlast.opening import open_world
from outlast.records import AnyRecord, AttemptOpened, NoticeDue
from outlast.recovery import IN_DOUBT
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.world import World
from tests.crash.driver import Orders

LIMIT_S = 30.0
LEASE_S = 10.0
DRIVER = Path(__file__).with_name("driver.py")
ROOT = Path(__file__).parents[2]


def act(name: str, tag: str) -> dict[str, Any]:
    return {"do": "tool", "name": name, "arguments": {"tag": tag}}


SCRIPT: Sequence[Mapping[str, Any]] = (
    {"do": "model", "text": "think about it"},
    act("never", "never-1"),
    act("verify", "verify-1"),
    act("keyed", "keyed-1"),
    {"do": "batch", "tools": [act("safe", "safe-1"), act("never", "never-2")]},
    {"do": "model", "text": "look again", "tools": [act("never", "never-3"), act("built_in", "built-in-1")]},
    {"do": "model", "text": "all is well"},
)
STEERED: Sequence[Mapping[str, Any]] = (act("nudge", "safe-0"), *SCRIPT)


@dataclass
class Worker:
    """A driver's process, or that of its supervisor."""

    name: str
    process: asyncio.subprocess.Process

    async def says(self, word: str) -> None:
        """Wait for that line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            said = (await self.process.stdout.readline()).decode().strip()
        assert said == word, f"{self.name} said {said!r}, not {word!r}"

    def tell(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    async def dies(self) -> float:
        """Wait for its end. Returns when that was."""
        async with asyncio.timeout(LIMIT_S):
            await self.process.wait()
        return SystemClock().now()


@dataclass
class Yard:
    """Where real workers live and die."""

    directory: Path
    url: str
    world: World
    workers: list[Worker] = field(default_factory=list[Worker])
    heir: Worker | None = None

    @property
    def hold(self) -> Path:
        """While it is there the heir claims nothing."""
        return self.directory / "hold"

    @property
    def ledger(self) -> Path:
        """What all of them did to the outside."""
        return self.directory / "ledger"

    async def start(self, name: str, *, supervised: bool = True, **orders: Any) -> Worker:
        """Start a worker and wait until its leases stand."""
        told = Orders(
            world=self.url,
            data=str(self.directory / "data"),
            ledger=str(self.ledger),
            name=name,
            **orders,
        )
        argv = [sys.executable, str(DRIVER), msgspec.json.encode(told).decode()]
        if supervised:
            (self.directory / "data" / "locks").mkdir(parents=True, exist_ok=True)
            argv = supervisor_argv(argv, lock=self.directory / "data" / "locks" / name, ttl_s=LIMIT_S)
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            },
        )
        worker = Worker(name, process)
        self.workers.append(worker)
        await worker.says("ready")
        return worker

    async def victim(self, session: str, number: int, spot: Spot | int, **orders: Any) -> Worker:
        """A worker of this session only, that will be struck at the spot, or at its n-th crossing of any point."""
        where = ("", "", spot) if isinstance(spot, int) else (str(spot.point), spot.policy, spot.nth)
        return await self.start(
            f"{session}-victim-{number}",
            only=session,
            spot=where,
            **_with_defaults(orders),
        )

    async def send(self, victim: Worker, *, last: bool = True) -> None:
        """Let a victim take its session and go on to its spot; behind the last one the heir may come."""
        victim.tell()
        await victim.says("claimed")
        if last:
            self.hold.unlink()
        victim.tell()

    async def records(self, session: str) -> list[AnyRecord]:
        return [
            record for commit in await self.world.commits(session) for record in records_of(session, commit)
        ]

    async def opened(self, session: str, script: Sequence[Mapping[str, Any]] = SCRIPT) -> Session:
        found = await Session.open(self.world, session, agent=Agent("tester", Scripted(script=script)))
        await found.send("go", id="in-1")
        return found


def _with_defaults(orders: Mapping[str, Any]) -> dict[str, Any]:
    return {"strike": "SIGKILL", "lease_s": LEASE_S, **orders}


@asynccontextmanager
async def yard(directory: Path, url: str = "", **heir: Any) -> AsyncGenerator[Yard]:
    """A yard with an heir, at a World's URL or on a file of its own; nobody is left in it at the end."""
    url = url or f"sqlite:{directory / 'world.db'}"
    async with open_world(url) as world:
        place = Yard(directory, url, world)
        try:
            place.hold.touch()
            orders: dict[str, Any] = {"lease_s": LEASE_S, **heir}
            place.heir = await place.start("heir", hold=str(place.hold), **orders)
            place.heir.tell()
            yield place
        finally:
            for worker in place.workers:
                if worker.process.returncode is None:
                    worker.process.send_signal(signal.SIGCONT)
                    worker.process.kill()
                await worker.process.wait()


@dataclass
class Told:
    """What the ledgers say."""

    asked: Counter[str] = field(default_factory=Counter[str])
    effects: Counter[str] = field(default_factory=Counter[str])
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    wrongs: list[str] = field(default_factory=list[str])
    told: Counter[str] = field(default_factory=Counter[str])
    """What somebody was notified of: its id, event and status."""
    lines: Counter[str] = field(default_factory=Counter[str])
    """How much each worker did, by name."""


def read_ledger(path: Path, session: str) -> Told:
    told = Told()
    for line in path.read_bytes().splitlines():
        facts = msgspec.json.decode(line, type=dict[str, str])
        if facts["session"] != session:
            continue
        told.lines[facts["worker"]] += 1
        if "asked" in facts:
            told.asked[facts["asked"]] += 1
        if "told" in facts:
            told.told[facts["told"]] += 1
        if "tag" in facts:
            told.effects[facts["tag"]] += 1
            told.keys[facts["tag"]].add(facts.get("key", ""))
        if "wrong" in facts:
            told.wrongs.append(facts["wrong"])
    return told


async def check(place: Yard, session: Session, *, unsure: bool = False) -> None:
    """Wait for the end of the turn; then every promise that holds whatever dies when."""
    async with asyncio.timeout(LIMIT_S):
        outcome = await session.result(1)
    told = read_ledger(place.ledger, session.id)
    assert not told.wrongs
    assert outcome.status == "done", outcome
    await told_of(place, session)
    results = [item for item in outcome.value if item != "safe-0 done"]
    assert (results[0], results[5], results[-1]) == ("think about it", "look again", "all is well")
    tags = ["never-1", "verify-1", "keyed-1", "safe-1", "never-2", "never-3", "built-in-1"]
    plain = [*results[1:4], *results[4], *results[6:8]]
    for tag, result in zip(tags, plain, strict=True):
        times = told.effects[tag]
        text = result if isinstance(result, str) else result["value"]
        if text == f"{tag} done":
            assert times >= 1, tag
        else:
            assert IN_DOUBT in text, text
            assert tag.startswith(("never", "built-in")) or unsure, (
                f"there was no reason for doubt about {tag}"
            )
        if not tag.startswith(("safe", "keyed")):
            assert times <= 1, f"{tag} happened {times} times"
        assert len(told.keys[tag]) <= 1 or tag.startswith("safe"), f"{tag} had several keys"


async def told_of(place: Yard, session: Session) -> None:
    """Wait until whoever is to be notified was: of all that is due, and again only where somebody died meanwhile."""
    async with asyncio.timeout(LIMIT_S), place.world.subscribe(session.id) as hints:
        while (state := fold(session.id, await place.world.commits(session.id))).untold:
            await hints.wait(0.1)
    assert state.turn is None
    told, records = read_ledger(place.ledger, session.id).told, await place.records(session.id)
    lives = {record.worker for record in records if isinstance(record, AttemptOpened)}
    due = {
        f"default/{session.id}/{one.number} {one.event} {one.status}"
        for one in records
        if isinstance(one, NoticeDue)
    }
    assert set(told) == due
    assert all(times <= len(lives) for times in told.values())


async def took_over_s(place: Yard, session: str, worker: str, died_s: float) -> float:
    """How long after a death that worker had the session."""
    for record in await place.records(session):
        if isinstance(record, AttemptOpened) and record.worker == worker:
            return record.at_s - died_s
    raise AssertionError(f"{worker} never had {session}")
