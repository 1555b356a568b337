"""A place for turns of a harness: a World, a scripted model, workers in this process and workers to be killed."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from outlast.adapter import Agent
from outlast.attaching import Attachment
from outlast.clock import SystemClock
from outlast.fold import records_of
from outlast.gate import Gate, OpenGate, Point
from outlast.gateway import Limits, Open, open_gateway
from outlast.opening import open_world
from outlast.records import AnyRecord, CallIntent, TurnSettled
from outlast.records.events import Event
from outlast.session import Outcome, Session, Turn
from outlast.testing.adapter_contract.environment import environment, of_a_user
from outlast.testing.adapter_contract.orders import HELLO_S, Orders, orders_argv
from outlast.testing.adapter_contract.promises import (
    Counted,
    Evidence,
    broken,
    gather,
    left_behind,
    processes_of,
)
from outlast.testing.adapter_contract.shop import TOOLS, Effects
from outlast.testing.adapter_contract.subject import Subject
from outlast.testing.faults import Spot
from outlast.testing.models import RequestRecord, Script, ScriptedModels, Step
from outlast.worker import Worker, WorkerConfig, open_worker
from outlast.workspace import Workspace
from outlast.workspaces.local import local
from outlast.world import Commit, SessionHead, World

LIMIT_S: Final = 60.0
"""For anything that is waited for; a loaded machine needs a while to start a large program."""
SPARED_S: Final = 3.0
"""How long a worker that has settled a turn may take to be struck behind that."""
_LOOK_S: Final = 0.25

T = TypeVar("T", bound=AnyRecord)


def says(*texts: str) -> Sequence[Step]:
    return [Step(text=text) for text in texts]


def prompt(conversation: str, text: str = "Please do it.") -> str:
    """A prompt that selects a conversation of the script."""
    return f"{text} [script:{conversation}]"


@dataclass
class Victim:
    """A worker process that is to die."""

    name: str
    process: "subprocess.Popen[bytes]"
    errors: Path
    pid: int = 0
    """Of the worker itself; the process is its supervisor."""

    async def death(self) -> None:
        """Wait until it, and everything that it started, is dead."""
        with anyio.fail_after(LIMIT_S):
            await anyio.to_thread.run_sync(self.process.wait, abandon_on_cancel=True)

    def kill(self) -> None:
        os.kill(self.pid, 9)


@dataclass
class Stage:
    """What a case acts on."""

    subject: Subject
    directory: Path
    url: str
    world: World
    models: ScriptedModels
    agent: Agent
    """What sessions are opened for, and what workers of this process offer; a case may replace it."""
    victims: list[Victim] = field(default_factory=list[Victim])
    workspace: Workspace | None = None
    """Where sessions work; None: in `shop`, which is the user's own."""
    data: Path = field(init=False)
    """Of the workers to come."""

    def __post_init__(self) -> None:
        self.data = self.directory / "data"

    @property
    def shop(self) -> Path:
        """Where sessions work."""
        return self.directory / "shop"

    def home(self, session: str) -> Path:
        """HOME of a session, the same for ever."""
        return self.directory / "data" / "homes" / session

    def effects(self, session: str = "s") -> Effects:
        return Effects.of(session)

    async def session(self, name: str = "s", settings: Mapping[str, object] | None = None) -> Session:
        return await Session.open(
            self.world,
            name,
            agent=self.agent,
            workspace=self.workspace or local(self.shop),
            home=self.home(name),
            settings=settings,
        )

    async def send(
        self,
        text: str,
        *,
        session: str = "s",
        id: str | None = None,  # noqa: A002 - as Session.send
        attachments: Sequence[Attachment] = (),
    ) -> Turn:
        return await (await self.session(session)).send(text, id=id, attachments=attachments)

    def forget_home(self, session: str = "s") -> None:
        """The next attempt finds nothing of the last one, as on another machine."""
        shutil.rmtree(self.home(session), ignore_errors=True)

    def move(self) -> None:
        """The next attempt finds nothing but the World and the directory in which it works, as on another machine."""
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        self.data = self.directory / "elsewhere"

    def untested(self, place: Path) -> Agent | None:
        """The agent with its program under another version number, put together at an empty place."""
        place.mkdir()
        return self.subject.untested(TOOLS, place)

    @asynccontextmanager
    async def worker(
        self,
        *,
        gate: Gate | None = None,
        lease_s: float = 10.0,
        silence_s: float = LIMIT_S,
        limits: Limits | None = None,
    ) -> AsyncGenerator[Worker]:
        """A worker in this process."""
        clock = SystemClock()
        config = WorkerConfig(
            self.data, lease_s=lease_s, silence_s=silence_s, clock=clock, gate=gate or OpenGate()
        )
        upstream = Open(self.models.base_url)
        async with (
            open_gateway(upstream=upstream, clock=clock, limits=limits or Limits(hello_s=HELLO_S)) as gateway,
            open_worker(self.world, {self.agent.name: self.agent}, gateway, config) as worker,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(worker.work)
            try:
                yield worker
            finally:
                worker.hand_over()

    async def victim(
        self,
        spot: Spot | None = None,
        *,
        session: str | None = None,
        orders: Mapping[str, object] | None = None,
    ) -> Victim:
        """Start a worker process, that kills itself at `spot` if one is given."""
        name = f"victim-{len(self.victims) + 1}"
        base = Orders(
            self.subject.recipe, sys.path, self.url, str(self.data), self.models.base_url, name, session
        )
        told = msgspec.structs.replace(base, **(orders or {}), **(Orders.at(spot) if spot else {}))
        errors = self.directory / f"{name}.log"
        with errors.open("wb") as log:
            process = subprocess.Popen(  # noqa: ASYNC220 - its first line is waited for in a thread
                orders_argv(told),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        victim = Victim(name, process, errors)
        self.victims.append(victim)
        assert process.stdout is not None
        said = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
        assert said, f"{name} did not start: {errors.read_text()[-2000:]}"
        victim.pid = int(said)
        return victim

    async def killed_at(self, *spots: Spot, session: str = "s") -> None:
        """Let one worker after the other advance the session until it dies at its spot, each in a fresh home.

        Fails where a turn is over and its worker has not come by the spot.
        """
        for spot in spots:
            victim = await self.victim(self._where(spot), session=session)
            await self._struck(victim, spot, session)
            self.forget_home(session)

    def _where(self, spot: Spot) -> Spot:
        """Where a worker learns that a tool has acted, which need not run in it."""
        of_tool = spot.point is Point.AFTER_EFFECT and spot.policy != "model"
        return replace(spot, point=self.subject.acted) if of_tool else spot

    async def _struck(self, victim: Victim, spot: Spot, session: str) -> None:
        """Return when the worker is dead."""
        spared = ""
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                nonlocal spared
                while not is_over(head := await self.world.get(session)):  # noqa: ASYNC110 - of parked turns nobody is told
                    await anyio.sleep(_LOOK_S)
                await anyio.sleep(SPARED_S)
                spared = f"the worker never came by {spot}, and the turn is over: {head.status}"
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await victim.death()
            tasks.cancel_scope.cancel()
        assert not spared, spared

    async def finish(self, turn: Turn, *, gate: Gate | None = None) -> Outcome:
        """Let a worker of this process carry a turn to its end."""
        async with self.worker(gate=gate):
            return await ended(turn)

    async def commits(self, session: str = "s") -> list[Commit]:
        found: list[Commit] = []
        while page := await self.world.commits(session, len(found), 1000):
            found += page
        return found

    async def records(self, session: str = "s") -> list[AnyRecord]:
        return [record for commit in await self.commits(session) for record in records_of(session, commit)]

    async def of_kind(self, kind: type[T], session: str = "s") -> list[T]:
        return [record for record in await self.records(session) if isinstance(record, kind)]

    async def call(self, name: str, session: str = "s", policy: str | None = None) -> CallIntent:
        """The one call of a tool."""
        intents = await self.of_kind(CallIntent, session)
        (found,) = [one for one in intents if one.name == name and policy in {None, one.policy}]
        return found

    def commands(self, session: str = "s") -> list[bytes]:
        """Command lines of what runs for a session."""
        pids = processes_of(self.home(session))
        return [line for pid in pids if (line := _command(pid))]

    def programs(self, session: str = "s") -> list[int]:
        """Processes of the harness itself."""
        pids = processes_of(self.home(session), self.shop)
        return [pid for pid in pids if self.subject.is_program(_command(pid))]

    def started(self, session: str = "s") -> list[int]:
        """Everything that an attempt in this process has started, but for who supervises it."""
        pids = processes_of(self.home(session), self.shop)
        return [pid for pid in pids if b"supervise.py" not in _command(pid)]

    async def last_settled(self, session: str = "s") -> TurnSettled:
        return (await self.of_kind(TurnSettled, session))[-1]

    def requests(self, conversation: str | None = None) -> list[RequestRecord]:
        """The model requests that reached the provider."""
        return [
            one
            for one in self.models.requests
            if one.kind == "model" and conversation in {None, one.conversation}
        ]

    def last_body(self) -> bytes:
        """The model request that reached the provider last."""
        return self.models.find_body(self.requests()[-1].n) or b""

    def steps(self, conversation: str | None = None) -> list[int | None]:
        return [one.step for one in self.requests(conversation)]

    async def evidence(self, session: str = "s", *conversations: str, but: Collection[int] = ()) -> Evidence:
        """Everything that was counted of a session; of its conversations all requests, by default of all.

        Args:
            but: numbers of requests that are another session's.
        """
        requests = [
            one
            for one in self.requests()
            if one.n not in but and (not conversations or one.conversation in conversations)
        ]
        bodies = {one.n: body for one in requests if (body := self.models.find_body(one.n)) is not None}
        counted = Counted(self.effects(session).all(), requests, bodies)
        return await gather(self.subject, self.world, session, await self.commits(session), counted)

    async def kept(
        self, *, lost_answers: int = 0, twins: bool = False, session: str = "s", but: Collection[int] = ()
    ) -> None:
        """Every promise holds of the session, and nothing of it runs any more."""
        evidence = await self.evidence(session, but=but)
        faults = broken(evidence, lost_answers=lost_answers, twins=twins)
        left = await left_behind(self.home(session), self.shop)
        assert not faults, "\n".join(faults)
        assert not left, f"processes are left behind: {left}"

    def leave(self) -> None:
        """End every victim that is left."""
        for victim in self.victims:
            if victim.process.poll() is None:
                victim.process.kill()
            victim.process.wait()
            if victim.process.stdout is not None:
                victim.process.stdout.close()


def _command(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def is_over(head: SessionHead) -> bool:
    """Whether every turn that was asked for has ended, or is parked for good, and no worker is at it."""
    if head.worker is not None or head.waiting_inputs:
        return False
    return not head.turn_open or (head.parked and head.wake_at_s is None)


async def ended(turn: Turn, limit_s: float = LIMIT_S) -> Outcome:
    """How a turn ended, within the limit."""
    with anyio.fail_after(limit_s):
        return await turn.result()


async def seen(turn: Turn, condition: Callable[[Event], bool], limit_s: float = LIMIT_S) -> Event:
    """The first event of a turn for which the condition holds."""
    with anyio.fail_after(limit_s):
        async for event in turn.follow():
            if condition(event):
                return event
    raise AssertionError("the turn ended without it")


async def until(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Wait for a condition on files or processes, which tell nobody when they change."""
    with anyio.fail_after(limit_s):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


@asynccontextmanager
async def staged(
    subject: Subject, directory: Path, script: Mapping[str, Sequence[Step]], *, retries: int | None = None
) -> AsyncGenerator[Stage]:
    """A stage with a scripted model in this process.

    Args:
        directory: empty, or with a directory `shop` in which sessions are to work.
        retries: how often in a row the provider may fail before a turn is parked; by default as the agent says.
    """
    url = f"sqlite:{directory / 'world.db'}"
    told = Script(conversations={name: tuple(steps) for name, steps in script.items()})
    for name in ("user", "effects", "shop"):
        (directory / name).mkdir(exist_ok=True)
    subject.furnish(directory / "shop")
    with environment(of_a_user(subject, directory)):
        async with ScriptedModels.serve(told) as models, open_world(url) as world:
            agent = subject.agent(TOOLS, upstream=models.base_url)
            if retries is not None:
                agent = replace(agent, provider_retries=retries)
            stage = Stage(subject, directory, url, world, models, agent)
            try:
                yield stage
            finally:
                stage.leave()
