"""Workers on a Postgres that fails them: killed under load, away for longer than a lease, slow, behind a pooler."""

import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
import pytest

from outlast.engine.batch import patiently
from outlast.engine.supervisor import EXIT_DEADLINE
from outlast.fold import fold
from outlast.recovery import IN_DOUBT
from outlast.session import Session
from tests.crash.real import LEASE_S, LIMIT_S, Yard, act, read_ledger, yard
from tests.servers.postgres import postgres_server

pytestmark = [
    pytest.mark.crash,
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

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
