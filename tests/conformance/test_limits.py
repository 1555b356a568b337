"""Limits under claimers that race, claim and give back all the time, on real stores: never one too many."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from outlast.testing.world_contract.blocks import TAKEOVER, commit, offer, renew
from outlast.world import Limits, World
from outlast.worlds.postgres import open_postgres
from outlast.worlds.sqlite import open_sqlite
from tests.servers.postgres import PostgresServer

LIMITS = Limits({"coder": 2, "writer": 3}, whole=4)
RACERS = 8
LOOKS = 10
"""So long a session is held."""
LIMIT_S = 50.0
Open = Callable[[], AbstractAsyncContextManager[World]]


class Crowd:
    """Claimers, and what they hold by their own account: from the answer to a claim until they give it back."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.held: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def race(self, world: World, racer: int) -> None:
        asked = replace(offer(f"w{racer}"), agents=frozenset({"coder", "writer"}), limits=LIMITS)
        left = self.rounds
        while left:
            # Now of its own session, where nobody else could come first, now of any.
            own = f"{'coder' if left % 3 else 'writer'}-{racer}"
            claim = await world.claim(replace(asked, only=own) if left % 2 else asked, TAKEOVER)
            if claim is None:
                await anyio.lowlevel.checkpoint()  # others hold all that may be held
                continue
            left -= 1
            self.held.update((claim.agent, "whole"))
            for name in (claim.agent, "whole"):
                self.most[name] = max(self.most[name], self.held[name])
            for _ in range(LOOKS):
                await world.get(claim.lease.session)
            self.held.subtract((claim.agent, "whole"))
            await world.release(claim.lease)


async def _hold(open_: Open, rounds: int) -> None:
    crowd = Crowd(rounds)
    async with open_() as one, open_() as other:
        for number in range(RACERS):
            for agent in ("coder", "writer"):
                await one.create(f"{agent}-{number}", commit(1, 0), agent=agent, priority=number % 3)
            renew(one, f"w{number}", 3600.0)
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as racers:
                for racer in range(RACERS):
                    racers.start_soon(crowd.race, one if racer % 2 else other, racer)
    assert crowd.held.total() == 0
    assert crowd.most["coder"] <= 2
    assert crowd.most["writer"] <= 3
    assert 3 <= crowd.most["whole"] <= 4, "and they do advance several at once"


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.full)])
async def test_racing_claimers_keep_limits_in_a_file(tmp_path: Path, rounds: int) -> None:
    await _hold(partial(open_sqlite, tmp_path / "world.db"), rounds)


@pytest.mark.server
@pytest.mark.parametrize("rounds", [5, pytest.param(60, marks=pytest.mark.full)])
async def test_racing_claimers_keep_limits_in_postgres(postgres: PostgresServer, rounds: int) -> None:
    await _hold(partial(open_postgres, postgres.new_url()), rounds)
