"""Faults to live through: gates that end a process or a worker at a named point, and a World that fails around a call.

Give a gate to a worker (`WorkerConfig.gate`), let it die, let another worker take over, and look at what the world
outside has seen:

    gate = RecordingGate()                 # an uncut turn first: where can it be cut?
    for spot in spots(gate.crossings):
        ...                                # kill_gate(spot) in a process of its own, or DeathGate(spot, world) in this
"""

import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from outlast.errors import WorldUnavailable
from outlast.gate import Gate, OpenGate, Point
from outlast.world import (
    Capability,
    Claim,
    Commit,
    Cursor,
    Delta,
    Input,
    Item,
    Lease,
    Liveness,
    Page,
    SessionHead,
    Spent,
    Stored,
    Subscription,
    Takeover,
    WorkerOffer,
    WorkerRow,
    World,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Crossing:
    """One time that a point was crossed."""

    point: Point
    call: int
    policy: str
    """Of a tool call its replay policy, `model` for a model call, empty where no call is at hand."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where to strike: the `nth` time, counted from 1, that a worker crosses `point` for a call of `policy`."""

    point: Point
    policy: str = ""
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.point}{f'({self.policy})' if self.policy else ''}#{self.nth}"


def spots(crossings: Iterable[Crossing]) -> list[Spot]:
    """The spot of each crossing, in order: everywhere that the worker which made them can be struck."""
    seen: Counter[tuple[Point, str]] = Counter()
    found: list[Spot] = []
    for crossing in crossings:
        seen[crossing.point, crossing.policy] += 1
        found.append(Spot(crossing.point, crossing.policy, seen[crossing.point, crossing.policy]))
    return found


class RecordingGate:
    """Lets everything pass and keeps what passed."""

    def __init__(self) -> None:
        self.crossings: list[Crossing] = []

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        self.crossings.append(Crossing(point, call, policy))


class StrikingGate:
    """Strikes once, at a spot.

    Args:
        strike: what happens there.
        before: awaited there first, with the call: for whatever must have come about by then.
        inner: crossed at every point, before anything else.
    """

    def __init__(
        self,
        spot: Spot,
        strike: Callable[[], None],
        *,
        before: Callable[[int], Awaitable[None]] | None = None,
        inner: Gate | None = None,
    ) -> None:
        self.spot = spot
        self.struck = False
        self._left = spot.nth
        self._strike = strike
        self._before = before
        self._inner = inner or OpenGate()

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        await self._inner.cross(point, call=call, policy=policy)
        if (point, policy) == (self.spot.point, self.spot.policy):
            self._left -= 1
            if self._left == 0:
                if self._before is not None:
                    await self._before(call)
                self.struck = True
                self._strike()


def kill_gate(spot: Spot, *, inner: Gate | None = None) -> StrikingGate:
    """A gate that ends its own process with SIGKILL at `spot`."""
    return StrikingGate(spot, lambda: os.kill(os.getpid(), signal.SIGKILL), inner=inner)


def stop_gate(spot: Spot, *, inner: Gate | None = None) -> StrikingGate:
    """A gate that suspends its own process with SIGSTOP at `spot`; it goes on when somebody sends SIGCONT."""
    return StrikingGate(spot, lambda: os.kill(os.getpid(), signal.SIGSTOP), inner=inner)


class Killed(BaseException):
    """The worker in whose name this ran is dead. Whatever code does while it unwinds is in vain: nothing arrives."""


class DeathGate(StrikingGate):
    """Ends one worker of several in this process, at a spot: its handle on the World is cut off at the same instant.

    Everything of it that comes to any point later is ended too, as nothing of a killed process goes on.
    """

    def __init__(
        self,
        spot: Spot,
        world: "MortalWorld",
        *,
        before: Callable[[int], Awaitable[None]] | None = None,
        inner: Gate | None = None,
    ) -> None:
        super().__init__(spot, world.die, before=before, inner=inner)
        self._world = world

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        self._world.check()
        await super().cross(point, call=call, policy=policy)
        self._world.check()


class AroundWorld:
    """A World that hands everything on to another. Subclasses change `around`, which every operation goes through."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Do `operation` (the name of a method of `World`) by awaiting `ask()`."""
        return await ask()

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def tenant(self) -> str:
        return self.world.tenant

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.world.capabilities

    def for_tenant(self, tenant: str = "default") -> World:
        return self.world.for_tenant(tenant)

    async def create(
        self,
        session: str,
        first: Commit,
        *,
        agent: str,
        placement: str = "any",
        labels: Mapping[str, str] | None = None,
        priority: int = 0,
    ) -> bool:
        create = self.world.create
        return await self.around(
            "create",
            lambda: create(
                session, first, agent=agent, placement=placement, labels=labels, priority=priority
            ),
        )

    async def fork(
        self,
        source: str,
        session: str,
        first: Commit,
        *,
        placement: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int = 0,
    ) -> bool:
        fork = self.world.fork
        return await self.around(
            "fork",
            lambda: fork(source, session, first, placement=placement, labels=labels, priority=priority),
        )

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        return await self.around("commit_many", lambda: self.world.commit_many(commits))

    async def commit_idle(self, session: str, commit: Commit) -> None:
        await self.around("commit_idle", lambda: self.world.commit_idle(session, commit))

    async def spent(self, first_day: int) -> Sequence[Spent]:
        return await self.around("spent", lambda: self.world.spent(first_day))

    async def stored(self, session: str) -> Stored:
        return await self.around("stored", lambda: self.world.stored(session))

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        await self.around("publish", lambda: self.world.publish(lease, after, first, deltas))

    async def drop_deltas(self, lease: Lease, before: int) -> None:
        await self.around("drop_deltas", lambda: self.world.drop_deltas(lease, before))

    async def get(self, session: str) -> SessionHead:
        return await self.around("get", lambda: self.world.get(session))

    async def list(
        self, *, after: str | None = None, limit: int = 100, labels: Mapping[str, str] | None = None
    ) -> Page:
        return await self.around("list", lambda: self.world.list(after=after, limit=limit, labels=labels))

    async def commits(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Commit]:
        return await self.around("commits", lambda: self.world.commits(session, after, limit))

    async def follow(self, session: str, after: Cursor) -> AsyncGenerator[Item, None]:
        async for item in self.world.follow(session, after):
            yield item

    async def erase(self, session: str) -> None:
        await self.around("erase", lambda: self.world.erase(session))

    async def put_input(self, session: str, new: Input) -> Input:
        return await self.around("put_input", lambda: self.world.put_input(session, new))

    async def inputs(self, session: str) -> Sequence[Input]:
        return await self.around("inputs", lambda: self.world.inputs(session))

    async def find_input(self, session: str, input_id: str) -> Input | None:
        return await self.around("find_input", lambda: self.world.find_input(session, input_id))

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        return await self.around("claim", lambda: self.world.claim(offer, takeover))

    async def release(self, lease: Lease) -> None:
        await self.around("release", lambda: self.world.release(lease))

    def open_liveness(self) -> Liveness:
        return self.world.open_liveness()

    async def tenants(self) -> Sequence[str]:
        return await self.around("tenants", self.world.tenants)

    async def workers(self) -> Sequence[WorkerRow]:
        return await self.around("workers", self.world.workers)

    async def get_many(self, session: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        return await self.around("get_many", lambda: self.world.get_many(session, hashes))

    def subscribe(
        self, session: str | None = None, *, inbox: bool = False
    ) -> AbstractAsyncContextManager[Subscription]:
        return self.world.subscribe(session, inbox=inbox)


class MortalWorld(AroundWorld):
    """One worker's handle, that dies with it: after `die` nothing of it reaches the store.

    Whoever asks is `Killed`. What was under way at that instant may land or not, as with a real process.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.dead = False

    def die(self) -> None:
        """Cut this handle off, here and now."""
        self.dead = True

    def check(self) -> None:
        """Raises Killed once it is dead: for whatever else a test lets its worker touch."""
        if self.dead:
            raise Killed

    async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        self.check()
        found = await ask()
        self.check()
        return found

    def open_liveness(self) -> Liveness:
        return _MortalLiveness(self.world.open_liveness(), self.check)

    def subscribe(
        self, session: str | None = None, *, inbox: bool = False
    ) -> AbstractAsyncContextManager[Subscription]:
        return self._subscribe(session, inbox=inbox)

    @asynccontextmanager
    async def _subscribe(self, session: str | None, *, inbox: bool) -> AsyncGenerator[Subscription]:
        self.check()
        async with self.world.subscribe(session, inbox=inbox) as hints:
            yield _MortalHints(hints, self.check)


@dataclass(frozen=True, slots=True)
class _MortalHints:
    hints: Subscription
    check: Callable[[], None]

    async def wait(self, timeout_s: float) -> bool:
        self.check()
        came = await self.hints.wait(timeout_s)
        self.check()
        return came


@dataclass(frozen=True, slots=True)
class _MortalLiveness:
    liveness: Liveness
    check: Callable[[], None]

    def renew(self, row: WorkerRow, ttl_s: float) -> float:
        self.check()
        return self.liveness.renew(row, ttl_s)

    def retire(self, worker: str) -> None:
        self.check()
        self.liveness.retire(worker)

    def close(self) -> None:
        self.liveness.close()


When: TypeAlias = Literal["before", "after"]


class FlakyWorld(AroundWorld):
    """Fails certain calls with `WorldUnavailable`: before they reach the store, or after, when they have landed.

    Args:
        failures: by operation and how often it was called, counted from 1.
    """

    def __init__(self, world: World, failures: Mapping[tuple[str, int], When] | None = None) -> None:
        super().__init__(world)
        self.calls: Counter[str] = Counter()
        self._failures = dict(failures or {})

    async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        self.calls[operation] += 1
        when = self._failures.get((operation, self.calls[operation]))
        if when == "before":
            raise WorldUnavailable(world=self.name, reason=f"a test failed {operation} before it was done")
        found = await ask()
        if when == "after":
            raise WorldUnavailable(world=self.name, reason=f"a test lost the answer to {operation}")
        return found
