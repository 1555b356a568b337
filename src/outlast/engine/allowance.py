"""What a tenant may use up in a period, over all its sessions and workers.

The counters are the World's (`Log.spent`). They are read again when they are older than `FRESH_S`; what this attempt
spends in between is added. So a limit is kept but for what is under way: calls that run, and what other attempts have
spent since the counters were read.
"""

import asyncio
from typing import Any, Final

from outlast.calls import Budget
from outlast.engine.batch import patiently
from outlast.engine.writer import Writer
from outlast.fold import TurnState
from outlast.tally import period_of
from outlast.world import Spent, World
from outlast.world.commit import DAY_S

FRESH_S: Final = 1.0
"""How old the counters may be by which a call begins."""


class Allowance:
    """The counters of the tenant, as one attempt sees them."""

    def __init__(self, world: World, writer: Writer) -> None:
        self._world = world
        self._writer = writer
        self._first_day = -1
        self._read = Spent()
        self._own = Spent()
        """What this writer had spent when they were read."""
        self._read_at_s = 0.0

    async def overspent(self, turn: TurnState, budget: Budget, now_s: float) -> dict[str, Any] | None:
        """The limit that the tenant has reached, as evidence; None while it is within all of them."""
        limits: dict[str, float | None] = {
            "tenant_usd": budget.tenant_usd,
            "tenant_tokens": budget.tenant_tokens,
            "tenant_calls": budget.tenant_calls,
            "tenant_s": budget.tenant_s,
        }
        if not any(limit is not None for limit in limits.values()):
            return None
        first, following = period_of(budget.tenant_period, now_s)
        spent = await self._spent(first)
        used = {
            "tenant_usd": spent.cost_usd,
            "tenant_tokens": spent.tokens,
            "tenant_calls": spent.calls,
            "tenant_s": spent.seconds,
        }
        forgiven = turn.mark.tenant if turn.mark.tenant.get("day") == first else {}
        for name, limit in limits.items():
            counts = used[name] - forgiven.get(name, 0.0)
            if limit is not None and counts >= limit:
                return {
                    "limit": name,
                    "used": round(counts, 6),
                    "of": limit,
                    "period": budget.tenant_period,
                    "until_s": float(following * DAY_S),
                    "tenant": {"day": first, **{key: round(value, 6) for key, value in used.items()}},
                }
        return None

    async def _spent(self, first_day: int) -> Spent:
        now_s, own = asyncio.get_running_loop().time(), self._writer.spent
        if first_day != self._first_day or now_s - self._read_at_s > FRESH_S:
            await self._writer.flush()
            own = self._writer.spent
            days = await patiently(lambda: self._world.spent(first_day))
            self._read = Spent()
            for day in days:
                self._read = self._read.plus(day)
            self._first_day, self._read_at_s, self._own = first_day, now_s, own
        read, before = self._read, self._own
        return Spent(
            0,
            read.cost_usd + own.cost_usd - before.cost_usd,
            read.tokens + own.tokens - before.tokens,
            read.calls + own.calls - before.calls,
            read.seconds + own.seconds - before.seconds,
        )
