"""What a worker claims: whose turn it is among its tenants and agents, and what it may hold without knowing.

Fairness, as far as a worker can see to it (the rest is `Queue.claim`):

* *Tenants take turns.* Whichever was served longest ago is asked first. Of any n claims of a worker, n being the number
  of tenants that have something ready, each of these gets one.
* *So do the agents of a tenant*, in the same way: nobody's thousand ready sessions keep another agent's five waiting.
* *No claim is left out* of the numbers by which each eighth goes against priorities and each third to the woken.

A worker that has many places free asks for several sessions at once, which then share a round trip. These asks are made
with each tenant and agent in front in turn, before it is known what the others get: shares hold over each such round.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from outlast.clock import Clock
from outlast.engine.batch import Batcher
from outlast.errors import WorldUnavailable
from outlast.logs import logger
from outlast.world import Claim, Lease, Limits, Takeover, WorkerOffer, World

AT_ONCE: Final = 16
"""So many ready sessions are asked for in one round trip, once asking for fewer has shown that there are as many."""
CYCLE: Final = 24
"""After so many claims of an agent its numbers mean the same again: eight times three."""

log = logger("outlast.worker")
Opening: TypeAlias = Callable[[], Takeover]


@dataclass
class Desk:
    """One tenant of the store, as a worker serves it."""

    world: World
    batcher: Batcher
    turns: dict[str, int]
    """Its agents, the one that was served longest ago first, each with the number of its next claim."""
    told: bool = True
    """Something of it may have become ready since it was asked last."""
    hearing: "asyncio.Task[None] | None" = None

    def asked(self, before: int) -> dict[str, int]:
        """What `WorkerOffer.turns` says in an ask, `before` others of the same round having been made."""
        names = list(self.turns)
        rounds, first = divmod(before, len(names) or 1)
        turned = [*names[first:], *names[:first]]
        earlier = {name: rounds + (place < first) for place, name in enumerate(names)}
        return {name: self.turns[name] + earlier[name] for name in turned}

    def served(self, won: Sequence[tuple[str, int]]) -> None:
        """Claims of one round were won: agents, with the numbers with which they were asked for."""
        for agent in dict.fromkeys(agent for agent, _ in won):
            numbers = {number for name, number in won if name == agent}
            number = self.turns.pop(agent, 0)
            while number in numbers:
                number += 1
            self.turns[agent] = number % CYCLE


@dataclass(frozen=True)
class Terms:
    """What a worker asks with, whatever the tenant."""

    offer: WorkerOffer
    opening: Opening
    limits: Limits = field(default_factory=Limits)


class Claiming:
    """Claims for one worker, of each of its tenants."""

    def __init__(self, clock: Clock, *, lease_s: float) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self.desks: list[Desk] = []
        """The tenant that was served longest ago first."""
        self.held: set[tuple[str, str]] = set()
        """Tenant and id of every session whose lease this worker knows to be its own."""
        self.trouble = 0
        """How often in a row the World could not be asked."""
        self.swept = True
        """No lease stands in this worker's name that it knows nothing of, as far as was seen since the World failed."""
        self._suspicious_until_s = 0.0
        """Until then a claim whose answer was lost may still land."""

    def add(self, world: World, agents: Sequence[str]) -> Desk:
        """Serve a tenant from now on."""
        desk = Desk(world, Batcher(world), dict.fromkeys(agents, 0))
        self.desks.append(desk)
        return desk

    def tell_all(self) -> None:
        """Any tenant may have something ready."""
        for desk in self.desks:
            desk.told = True

    async def fill(self, terms: Terms, room: Callable[[], int], begin: Callable[[Desk, Claim], None]) -> bool:
        """Claim until nothing is ready or there is no room, and `begin` each. True if anything was claimed."""
        asked = [desk for desk in self.desks if desk.told]
        for desk in asked:
            desk.told = False
        claimed, at_once = False, min(max(1, len(asked)), AT_ONCE)
        while asked and (free := room()) > 0:
            count = min(at_once, free)
            empty = await self._round(terms, [asked[at % len(asked)] for at in range(count)], begin)
            claimed = claimed or len(empty) < count
            asked = sorted((desk for desk in asked if desk not in empty), key=self.desks.index)
            at_once = min(2 * at_once, AT_ONCE)
        for desk in asked:
            desk.told = True  # there was no room for what it may have
        return claimed

    async def _round(
        self, terms: Terms, desks: list[Desk], begin: Callable[[Desk, Claim], None]
    ) -> list[Desk]:
        """Ask each of `desks` at once, and begin what was ready. Returns those that had nothing."""
        asks = [(desk, desk.asked(desks[:place].count(desk))) for place, desk in enumerate(desks)]
        answers = await asyncio.gather(
            *(self._claim(desk, terms, turns) for desk, turns in asks), return_exceptions=True
        )
        empty: list[Desk] = []
        won: dict[int, list[tuple[str, int]]] = {}
        for (desk, turns), claim in zip(asks, answers, strict=True):
            if isinstance(claim, Claim):
                won.setdefault(id(desk), []).append((claim.agent, turns.get(claim.agent, 0)))
                begin(desk, claim)
            elif claim is None:
                empty.append(desk)
        for desk in {id(desk): desk for desk in desks if id(desk) in won}.values():
            desk.served(won[id(desk)])
            self.desks.remove(desk)
            self.desks.append(desk)
        for failure in answers:
            if isinstance(failure, BaseException):
                raise failure
        return empty

    async def _claim(self, desk: Desk, terms: Terms, turns: dict[str, int]) -> Claim | None:
        offer = replace(terms.offer, turns=turns, limits=terms.limits)
        try:
            claim = await desk.world.claim(offer, terms.opening())
        except WorldUnavailable as error:
            self.trouble += 1
            desk.told = True
            self.suspect()
            log.warning("claiming failed, trying again: %s", error)
            return None
        self.trouble = 0
        return claim

    def suspect(self) -> None:
        """Something may be held that this worker does not know of."""
        self.swept = False
        self._suspicious_until_s = self._clock.elapsed() + self._lease_s

    async def sweep(self, worker: str) -> None:
        """Give back what `worker` holds and does not advance: claims whose answer was lost, releases that failed."""
        if self.swept and self._clock.elapsed() >= self._suspicious_until_s:
            return
        try:
            for desk in self.desks:
                await self._sweep(desk, worker)
        except WorldUnavailable as error:
            if not self.trouble:
                log.warning("what this worker holds cannot be looked through, trying again: %s", error)
            self.trouble += 1
        else:
            self.swept = True

    async def _sweep(self, desk: Desk, worker: str) -> None:
        after: str | None = None
        while True:
            page = await desk.world.list(after=after)
            for head in page.sessions:
                if head.worker == worker and (desk.world.tenant, head.session) not in self.held:
                    await desk.world.release(Lease(head.session, head.fence, worker))
                    desk.told = True
            after = page.next
            if after is None:
                return
