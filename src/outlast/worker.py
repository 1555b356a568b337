"""A process that claims sessions and advances them, several at once, until it is told to drain."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from outlast.adapter import Agent, Gateway
from outlast.clock import Clock, SystemClock
from outlast.codec import encode_records
from outlast.engine.able import Able
from outlast.engine.claiming import Claiming, Desk, Terms
from outlast.engine.control import Control
from outlast.engine.deadlines import Supervision, write_spared
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.engine.peers import Peers, forget_locks, retire
from outlast.engine.pidns import can_use_pid_namespace
from outlast.engine.proof import Holder, host_id
from outlast.engine.term import Advanced, Term
from outlast.engine.turn import KILL_GRACE_S, Advancer
from outlast.errors import WorldUnavailable
from outlast.folders import make_private
from outlast.gate import Gate, OpenGate
from outlast.ids import new_id
from outlast.logs import logger
from outlast.notify import Notifier
from outlast.records import FORMAT, PLAIN, AttemptOpened
from outlast.sites import Ground
from outlast.tracing import Collector
from outlast.workspace import Kind
from outlast.world import Claim, Limits, Takeover, WorkerOffer, WorkerRow, World

POLL_S: Final = 1.0
"""How often ready sessions are looked for when no hint comes."""
STOP_S: Final = 10.0
"""How long the end of a worker waits for what does not end."""
CLOCK_S: Final = 0.25
"""How often a worker looks how much of its time is left."""

log = logger("outlast.worker")


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker must know beside its World, its agents and its gateway."""

    data: Path
    """Directory of homes, workspaces and locks."""
    machine: str = ""
    """Id of this machine, for sessions of `local()` directories; empty: such sessions are not offered."""
    lease_s: float = 10.0
    kill_grace_s: float = KILL_GRACE_S
    """How long, after a lease merely ran out, what its holder started may still be dying."""
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """Kinds of workspaces beside those that are installed."""
    silence_s: float = 600.0
    """How long a harness's program may be silent while nothing runs that it waits for; then its attempt ends."""
    concurrency: int = 16
    supervision: Supervision | None = None
    """Held of the supervisor that is this worker's parent; None when embedded in somebody else's process: then each
    attempt's tree is supervised, and the worker's own death is noticed by its lease only."""
    clock: Clock = field(default_factory=SystemClock)
    gate: Gate = field(default_factory=OpenGate)
    notifier: Notifier | None = None
    """Told how the turns stand that this worker advances; None: nobody is."""
    collector: Collector | None = None
    """Sent the traces of the turns that this worker settles; None: nobody is."""
    only: str | None = None
    """Advance this session and no other."""
    tenants: Sequence[str] = ()
    """Whose sessions it advances, in turns; empty: those of the tenant of the World that it is given."""
    all_tenants: bool = False
    """It advances those of whoever has any."""
    limits: Limits = field(default_factory=Limits)
    """How many sessions of a tenant are advanced at once by all workers that say so."""
    name: str = ""
    """Its id, by default a fresh one. Never one used before: its row would keep the leases of the dead alive."""

    @property
    def locks(self) -> Path:
        return self.data / "locks"


class Worker:
    """Claims and advances. Open with `open_worker`, then `work`."""

    def __init__(
        self,
        world: World,
        agents: Mapping[str, Agent],
        gateway: Gateway,
        config: WorkerConfig,
        keeper: Keeper,
    ) -> None:
        self._world = world
        self._agents = agents
        self._able = Able(agents, config.clock)
        self._config = config
        self._keeper = keeper
        self.term = Term(config.clock)
        """When it must have ended."""
        self._only = config.only
        self._host = host_id()
        self._claiming = Claiming(config.clock, lease_s=config.lease_s)
        self._running: dict[asyncio.Task[None], Control] = {}
        self._wake = asyncio.Event()
        self._poll_at_s = 0.0
        self._polled = True
        """Tenants are to be looked for."""
        self._peers = Peers(world, config.locks, self._host, self._notice_death)
        self._draining = asyncio.Event()
        self._pid_namespace: bool | None = None
        self._version = version("outlast")
        lock = config.supervision and config.supervision.lock
        self.processes = SupervisedProcesses(
            config.locks, keeper, config.lease_s, self._has_pid_namespaces, lock
        )
        spare = config.supervision and partial(write_spared, config.supervision.deadline_fd)
        self._ground = Ground(config.data, gateway, self.processes, config.silence_s, config.kinds, spare)
        self.id = config.name
        self.lost = False
        """The leases were lost: nothing more can be advanced by this worker."""

    @property
    def running(self) -> int:
        """How many sessions are being advanced."""
        return len(self._running)

    @property
    def tenants(self) -> Sequence[str]:
        """Whom it has served, the last to be served first."""
        return [desk.world.tenant for desk in reversed(self._claiming.desks)]

    @property
    def draining(self) -> bool:
        """It claims nothing more."""
        return self._draining.is_set() or self.term.closing

    def drain(self) -> None:
        """Claim nothing more; `work` returns when what runs has ended or was handed over."""
        self._draining.set()
        self._wake.set()

    def hand_over(self) -> None:
        """Stop what runs as soon as it can be done cleanly, and leave it to other workers."""
        self.drain()
        for control in self._running.values():
            control.hand_over()

    def end_in(self, seconds: float, *, reserve_s: float | None = None) -> None:
        """Be through `seconds` from now, when somebody ends this process. `work` returns in time.

        In the reserve before that nothing is claimed, no model call begins, nor a tool whose time-out does not fit; a
        turn of which nothing runs any more is handed over. At last everything is.
        """
        self.term.end_in(seconds, reserve_s)
        self._wake.set()

    def lose(self, cause: str) -> None:
        """The leases no longer stand, as far as is known: every attempt stops at once."""
        self.lost = True
        for control in self._running.values():
            control.lose(cause)
        self.drain()

    def _notice_death(self) -> None:
        self._claiming.tell_all()
        self._wake.set()

    async def advance(
        self, session: str | None = None, *, limit_s: float | None = None, reserve_s: float | None = None
    ) -> Advanced:
        """Carry one session, or whatever is ready, as far as the time allows; the last thing that this worker does.

        Args:
            limit_s: seconds after which this process may be ended; everything is handed over before.
            reserve_s: see `end_in`.

        Raises:
            SessionUnknown, SessionErased, WorldUnavailable
        """
        if session is not None:
            await self._world.get(session)
        self._only = session or self._config.only
        if limit_s is not None:
            self.end_in(limit_s, reserve_s=reserve_s)
        await self.work(until_idle=True)
        if session is None:
            return Advanced(self.draining, None, "")
        head = await self._world.get(session)
        again = head.worker is None and head.is_ready(self._config.clock.now())
        return Advanced(again, head.wake_at_s, head.status)

    async def work(self, *, until_idle: bool = False) -> None:
        """Claim and advance until drained, or with `until_idle` until nothing is ready.

        Returns also when the leases were lost, which `lost` then says.
        """
        clock = asyncio.get_running_loop().create_task(self._watch_the_clock())
        claiming = self._claiming
        self._poll()
        try:
            while not self._draining.is_set():
                self._wake.clear()
                if until_idle:
                    self._poll()
                if await self._peers.look(self.id):
                    claiming.tell_all()
                await claiming.sweep(self.id)
                claimed = await self._fill()
                idle = not claimed and not self._running and not claiming.trouble and claiming.swept
                if until_idle and idle:
                    break
                await self._pause()
            while self._running:
                await asyncio.wait(self._running)
        finally:
            hearing = [desk.hearing for desk in claiming.desks if desk.hearing is not None]
            await self._stop([*hearing, clock, *self._peers.watching, *self._running])

    async def _stop(self, tasks: list["asyncio.Future[None]"]) -> None:
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):  # bounded: by this limit, and by the batcher's patience
            if tasks:
                await asyncio.wait(tasks, timeout=STOP_S)
            for desk in self._claiming.desks:
                await desk.batcher.drain()

    async def _fill(self) -> bool:
        """Claim until nothing is ready or the worker is full. True if anything was claimed."""
        await self._look_for_tenants()
        return await self._claiming.fill(await self._terms(), self._room, self._begin)

    def _room(self) -> int:
        return 0 if self.draining else self._config.concurrency - len(self._running)

    async def _terms(self) -> Terms:
        config, able = self._config, await self._able.versions()
        offer = WorkerOffer(
            worker=self.id,
            agents=frozenset(able),
            max_format=FORMAT,
            placements=frozenset({"any", f"host:{config.machine}"} if config.machine else {"any"}),
            dead=frozenset(self._peers.dead),
            only=self._only,
        )
        return Terms(offer, partial(self._opening, able.values()), config.limits)

    def _opening(self, able: Iterable[Mapping[str, str]]) -> Takeover:
        versions = {"outlast": self._version, **{name: one[name] for one in able for name in one}}
        opened = AttemptOpened(self.id, self._host, versions, self._config.clock.now())
        return Takeover(encode_records([opened]), 1, PLAIN)

    async def _look_for_tenants(self) -> None:
        """Serve each tenant that is to be served and is not yet."""
        config, claiming, wanted = self._config, self._claiming, self._config.tenants
        if config.all_tenants:
            if not self._polled:
                return
            self._polled = False
            try:
                wanted = await self._world.tenants()
            except WorldUnavailable:
                claiming.trouble += 1
                self._polled = True
                return
            claiming.trouble = 0
        elif claiming.desks:
            return
        served = {desk.world.tenant for desk in claiming.desks}
        worlds = [self._world.for_tenant(tenant) for tenant in wanted if tenant not in served]
        for world in worlds if wanted or config.all_tenants else [self._world]:
            desk = claiming.add(world, sorted(self._agents))
            desk.hearing = asyncio.get_running_loop().create_task(self._hear(desk))

    def _begin(self, desk: Desk, claim: Claim) -> None:
        if self.lost:  # what came too late for its lease is left to other workers
            return
        control = Control(claim.lease.session)
        self._claiming.held.add((desk.world.tenant, claim.lease.session))
        task = asyncio.get_running_loop().create_task(self._advance(desk, claim, control))
        self._running[task] = control
        task.add_done_callback(partial(self._ended, desk))

    def _ended(self, desk: Desk, task: asyncio.Task[None]) -> None:
        control = self._running.pop(task)
        desk.told = True
        self._wake.set()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, WorldUnavailable):  # its words are the World's, and say what to do
            log.error("session %s waits: %s", control.session, error)
        elif error is not None:
            log.error("session %s could not be advanced", control.session, exc_info=error)
        if error is None or isinstance(error, WorldUnavailable):
            # One that this code cannot advance is held until the worker ends, so that nobody tries in vain.
            self._claiming.held.discard((desk.world.tenant, control.session))
        if isinstance(error, WorldUnavailable):
            self._claiming.suspect()

    async def _advance(self, desk: Desk, claim: Claim, control: Control) -> None:
        config = self._config
        advancer = Advancer(
            desk.world,
            desk.batcher,
            self._agents,
            partial(self._ground.open, desk.world),
            config.gate,
            config.clock,
            kill_grace_s=config.kill_grace_s,
            term=self.term,
            stands=self._stands,
            notifier=config.notifier,
            collector=config.collector,
        )
        log.info("claimed %s at fence %d (%s)", claim.lease.session, claim.lease.fence, claim.proof)
        await advancer.advance(claim, control)

    def _stands(self) -> bool:
        """Whether the leases are sure to stand: a process that was suspended knows before its keeper tells it."""
        return self._config.clock.elapsed() * 1e9 < self._keeper.deadline_ns

    async def _has_pid_namespaces(self) -> bool:
        if self._pid_namespace is None:
            self._pid_namespace = (await can_use_pid_namespace()).usable
        return self._pid_namespace

    async def _pause(self) -> None:
        claiming = self._claiming
        trouble = min(claiming.trouble, 10)  # a World that is full may be in trouble for days
        pause_s = POLL_S if claiming.swept and not trouble else min(POLL_S, 0.01 * 2**trouble)
        # Others are looked at also beneath a stream of hints about some: nobody tells what time alone makes ready.
        pause_s = min(pause_s, max(0.0, self._poll_at_s - asyncio.get_running_loop().time()))
        with anyio.move_on_after(pause_s):
            await self._wake.wait()
        if asyncio.get_running_loop().time() >= self._poll_at_s:
            self._poll()

    def _poll(self) -> None:
        self._poll_at_s = asyncio.get_running_loop().time() + POLL_S
        self._polled = True
        self._claiming.tell_all()

    async def _watch_the_clock(self) -> None:
        """Claim nothing in the reserve before the end, and hand everything over a moment before it."""
        while (left_s := self.term.left_s) is None or left_s > self.term.last_s:
            if self.term.closing:
                self.drain()
            await asyncio.sleep(
                CLOCK_S if left_s is None else min(CLOCK_S, max(0.001, left_s - self.term.last_s))
            )
        self.hand_over()

    async def _hear(self, desk: Desk) -> None:
        async with desk.world.subscribe() as hints:
            while True:
                if await hints.wait(60.0):
                    desk.told = True
                    self._wake.set()


@asynccontextmanager
async def open_worker(
    world: World, agents: Mapping[str, Agent], gateway: Gateway, config: WorkerConfig
) -> AsyncGenerator[Worker]:
    """A worker under its leases. When the context ends they are given back."""
    make_private(config.locks)
    config = replace(config, name=config.name or new_id("worker"))
    holder = "" if config.supervision is None else str(Holder(host_id(), config.supervision.lock.name))
    liveness, row = world.open_liveness(), WorkerRow(config.name, holder, 0.0)
    found: list[Worker] = []
    keeper = Keeper(
        lambda: liveness.renew(row, config.lease_s),
        ttl_s=config.lease_s,
        on_lost=lambda cause: _lose(found, cause),
        clock=config.clock,
        deadline_fd=None if config.supervision is None else config.supervision.deadline_fd,
    )
    try:
        async with keeper:
            found.append(worker := Worker(world, agents, gateway, config, keeper))
            await forget_locks(world, config.locks)
            yield worker
    finally:
        with anyio.move_on_after(STOP_S, shield=True):
            await anyio.to_thread.run_sync(retire, world, config.name, abandon_on_cancel=True)
            await anyio.to_thread.run_sync(liveness.close, abandon_on_cancel=True)


def _lose(found: list[Worker], cause: str) -> None:
    for worker in found:
        worker.lose(cause)
