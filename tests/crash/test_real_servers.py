"""Workers on a Postgres that fails them: killed under load, away for longer than a lease, with its hints lost."""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.python import IO, Loop
from outlast.engine.batch import patiently
from outlast.engine.supervisor import EXIT_DEADLINE
from outlast.fold import fold
from outlast.gate import Point
from outlast.recovery import IN_DOUBT
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.worker import POLL_S, WorkerConfig, open_worker
from outlast.worlds.postgres import Pace, PostgresWorld, open_postgres
from outlast.worlds.postgres.database import Rows, Value
from outlast.worlds.postgres.hints import NOTIFY
from tests.crash.real import LEASE_S, LIMIT_S, Yard, act, check, read_ledger, took_over_s, yard
from tests.servers.postgres import PostgresServer, postgres_server

pytestmark = [
    pytest.mark.crash,
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

POLLED = Pace(poll_s=POLL_S)
SLACK_S = 3.0
"""For a machine that does other things."""
ROUNDS = 8
POLICIES = ("never", "safe", "verify", "keyed")
SCRIPT = [act(policy, f"{policy}-{number}") for number in range(ROUNDS) for policy in POLICIES]


async def load(place: Yard, count: int) -> list[Session]:
    """Sessions with turns of many calls, and workers that carry them."""
    return [await place.opened(f"load-{number}", SCRIPT) for number in range(count)]


async def progress(sessions: Sequence[Session], beyond: int) -> int:
    """Wait until the logs have grown beyond so many commits together. Returns how many there are."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            heads = [await patiently(session.head) for session in sessions]
            seqs = sum(head.seq for head in heads)
            if seqs > beyond or not any(head.turn_open or head.waiting_inputs for head in heads):
                return seqs
            await asyncio.sleep(0.01)  # others write: there is nothing here to wait for


async def ended(place: Yard, sessions: Sequence[Session]) -> int:
    """Wait for the ends; nothing was done twice, nothing is missing. Returns how many calls are in doubt."""
    doubts = 0
    for session in sessions:
        async with asyncio.timeout(2 * LIMIT_S):
            outcome = await session.result(1)
        assert outcome.status == "done"
        assert len(outcome.value) == len(SCRIPT)
        told = read_ledger(place.ledger, session.id)
        assert not told.wrongs
        for step, result in zip(SCRIPT, outcome.value, strict=True):
            tag = step["arguments"]["tag"]
            text = result if isinstance(result, str) else result["value"]
            if IN_DOUBT in text:
                doubts += 1
                assert tag.startswith("never")
            else:
                assert text == f"{tag} done"
                assert told.effects[tag] >= 1
            assert told.effects[tag] <= 1 or tag.startswith(("safe", "keyed")), f"{tag} happened again"
            assert len(told.keys[tag]) <= 1 or tag.startswith("safe")
        assert fold(session.id, await place.world.commits(session.id)).turn is None
    return doubts


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=[pytest.mark.full, pytest.mark.timeout(600)])])
async def test_turns_outlive_sigkill_of_their_server_under_load_without_a_doubt(
    tmp_path: Path, seed: int, kills: int
) -> None:
    draw = random.Random(seed)
    with postgres_server() as server:
        async with yard(tmp_path, server.new_url()) as place:
            other = await place.start("other", lease_s=LEASE_S)
            other.tell()
            place.hold.unlink()
            sessions = await load(place, 3 * kills)
            done = 0
            for _ in range(kills):
                done = await progress(sessions, done + draw.randrange(10, 120))
                await anyio.to_thread.run_sync(server.kill)
                await anyio.to_thread.run_sync(server.start)
            assert await ended(place, sessions) == 0
            told = [read_ledger(place.ledger, session.id) for session in sessions]
            assert all(times == 1 for one in told for times in one.effects.values()), "a call was made again"


async def test_turns_outlive_a_server_that_is_away_for_longer_than_their_leases(
    tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    with postgres_server() as server:
        async with yard(tmp_path, server.new_url(), lease_s=1.0, kill_grace_s=0.2) as place:
            assert place.heir is not None
            place.hold.unlink()
            sessions = await load(place, 2)
            await progress(sessions, draw.randrange(10, 60))
            await anyio.to_thread.run_sync(server.kill)
            await place.heir.dies()
            assert place.heir.process.returncode == EXIT_DEADLINE
            await anyio.to_thread.run_sync(server.start)
            last = await place.start("last", lease_s=LEASE_S)
            last.tell()
            await ended(place, sessions)


async def test_a_worker_on_postgres_dies_with_its_supervisor_and_its_lease_decides(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with yard(tmp_path, postgres.new_url(), lease_s=1.0, kill_grace_s=0.2) as place:
        for spot in (Spot(Point.IN_EFFECT, "verify"), Spot(Point.AFTER_INTENT, "never")):
            name = str(spot.point)
            place.hold.touch()
            victim = await place.victim(name, 0, spot, strike="supervisor", lease_s=1.0)
            session = await place.opened(name)
            await place.send(victim)
            await victim.says("struck")
            died_s = await victim.dies()
            await check(place, session)
            assert 0.0 < await took_over_s(place, name, "heir", died_s) < LEASE_S


def lose_notifications(world: PostgresWorld) -> None:
    """Let none of this process's notifications arrive."""
    real = world.store.pool.rows

    async def rows(statement: str, *bindings: Value) -> Rows:
        return () if statement == NOTIFY else await real(statement, *bindings)

    world.store.pool.rows = rows


async def test_no_turn_waits_longer_than_the_slow_poll_though_every_notification_is_lost(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """The worker's and the application's: a prompt, a signal for a turn that sleeps, one for a turn that is held."""
    url, waits_s = postgres.new_url(), dict[str, float]()

    async def run(io: IO, prompt: str) -> object:
        return await io.wait_for("ci")

    agent = Agent("tester", Loop(run))
    async with open_postgres(url, pace=POLLED) as theirs, open_postgres(url, pace=POLLED) as world:
        for one in (theirs, world):
            lose_notifications(one)
        config = WorkerConfig(tmp_path, kill_grace_s=0.0)
        async with (
            open_worker(theirs, {"tester": agent}, cast("Gateway", None), config) as worker,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(worker.work)
            session = await Session.open(world, "s", agent=agent)
            for number in range(1, 4):
                began_s = time.perf_counter()
                await session.send("go")
                # Looked at again and again: whether hints come is what is tried.
                while "waiting" not in (await session.head()).status:  # noqa: ASYNC110 - the same
                    await asyncio.sleep(0.01)
                waits_s[f"prompt {number}"] = time.perf_counter() - began_s
                began_s = time.perf_counter()
                await session.signal("ci", number)
                assert (await session.result(number)).value == number
                waits_s[f"signal {number}"] = time.perf_counter() - began_s
            worker.drain()
    # Two polls at most lie between: that of the worker, and that of whoever waits for the end.
    assert max(waits_s.values()) < 2 * POLL_S + SLACK_S, waits_s
