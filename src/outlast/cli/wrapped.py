"""What `outlast wrap` does in the process that its supervisor started: a worker for one session, and its program."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
import click

from outlast.adapter import Adapter, Agent, Door
from outlast.cli.agents import built_in
from outlast.cli.attended import stands_still
from outlast.cli.exits import Exit
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup
from outlast.cli.providers import refuse_unusable, upstream_of
from outlast.cli.run import DIRECTORY, left
from outlast.cli.watching import may_end, show, sink_of
from outlast.cli.wishes import WrapWish
from outlast.clock import Clock
from outlast.codec import encode_input, read_files
from outlast.engine.children import input_of
from outlast.engine.pidns import can_use_pid_namespace, pid_namespace_argv
from outlast.engine.places import fresh_home, make_places, places_of
from outlast.errors import BadInput, NotFound, SessionExists, SessionUnknown
from outlast.gateway import HttpGateway, every_dialect, open_gateway
from outlast.gateway.app import HOOKS, TOOLS
from outlast.ids import check_session_id, new_id, new_token
from outlast.prices import prices_of
from outlast.records import Recall
from outlast.session import Session
from outlast.telemetry.wishes import open_collector
from outlast.worker import Worker, WorkerConfig, open_worker
from outlast.workspaces.local import local
from outlast.world import World
from outlast.wrapping import Program, Seat, Wrapped, Wraps

AT_TERMINAL: Final = "-terminal"
"""Ends the agent's name, behind the harness's. Its sessions are advanced by `outlast wrap` alone: another worker could
not show them where they were begun."""
CLOSE_S: Final = 5.0
"""How long a program that is killed may take to be gone."""
SETTLE_S: Final = 10.0
"""How long the end of the program's last turn may take to be written down."""


async def attend(setup: Setup, wish: WrapWish) -> int:
    """Wrap a program until it ends. Returns the exit code."""
    async with setup.world() as world:
        session = await (_begin(setup, world, wish) if wish.resume is None else _find(setup, world, wish))
        agent = (await session.head()).agent
        plain = built_in(agent.removesuffix(AT_TERMINAL)).adapter
        for warning in plain.check():
            click.secho(f"outlast: {warning}", fg="yellow", err=True)
        refuse_unusable(setup.settings, os.environ, plain, await _settings_of(session))
        return await _Wrapping(setup, session, wish).run(world, agent, _able(plain))


async def _settings_of(session: Session) -> Mapping[str, Any]:
    opened = (await session.state()).opened
    return {} if opened is None else opened.settings


def _able(plain: Adapter) -> Wraps:
    if isinstance(plain, Wraps):
        return plain
    detail = f"{plain.name} cannot be wrapped: `outlast run {plain.name} …` carries prompts out."
    raise BadInput(detail=detail)


async def _begin(setup: Setup, world: World, wish: WrapWish) -> Session:
    plain = built_in(wish.harness).adapter
    settings = _able(plain).terminal_settings(wish.flags)
    refuse_unusable(setup.settings, os.environ, plain, {**plain.settings(), **settings})
    name = check_session_id(wish.name) if wish.name else f"{wish.program}-{new_id('')[1:9]}"
    if wish.name is not None and await _is_there(world, name):
        raise SessionExists(session=name, difference=f"bring it back with `outlast wrap --resume {name}`")
    workspace = local(Path(), host=machine_id(setup.settings.data))
    return await Session.open(
        world,
        name,
        agent=Agent(wish.harness + AT_TERMINAL, plain),
        workspace=workspace,
        home=fresh_home(setup.settings.data, name),
        settings=settings,
        labels={DIRECTORY: workspace.cwd},
    )


async def _is_there(world: World, name: str) -> bool:
    try:
        await Session.find(world, name)
    except SessionUnknown:
        return False
    return True


async def _find(setup: Setup, world: World, wish: WrapWish) -> Session:
    if wish.resume != "newest":
        session = await Session.find(world, wish.resume or "")
        agent = (await session.head()).agent
        if not agent.endswith(AT_TERMINAL):
            hint = f"Its agent is {agent}: `outlast run {agent} … --session {session.id}` goes on with it."
            raise NotFound(detail=f"{session.id} was not begun with `outlast wrap`. {hint}")
        return session
    place = local(Path(), host=machine_id(setup.settings.data))
    page = await world.list(labels={DIRECTORY: place.cwd}, limit=200)
    for head in page.sessions:
        if head.agent.endswith(AT_TERMINAL) and head.placement == place.placement:
            return await Session.find(world, head.session)
    raise NotFound(detail=f"Nothing was wrapped in {place.cwd}. `outlast wrap -- PROGRAM` begins one.")


class _Wrapping:
    """One program at the terminal, and the worker beside it."""

    def __init__(self, setup: Setup, session: Session, wish: WrapWish) -> None:
        self._setup = setup
        self._session = session
        self._wish = wish

    async def run(self, world: World, agent: str, plain: Wraps) -> int:
        setup, session = self._setup, self._session
        config = WorkerConfig(
            data=setup.settings.data,
            machine=machine_id(setup.settings.data),
            lease_s=setup.settings.lease_s,
            silence_s=setup.settings.silence_s,
            supervision=self._wish.supervision,
            clock=setup.clock,
            only=session.id,
            name=new_id("wrap"),
        )
        upstream, code = upstream_of(setup.settings, os.environ), 0
        dialects = every_dialect(prices_of(setup.settings))
        async with open_gateway(upstream=upstream, clock=setup.clock, dialects=dialects) as gateway:
            seat = await self._seat(gateway, world.tenant)
            typed = plain.wrap(seat)
            async with (
                open_collector(os.environ, setup.clock, config.name) as collector,
                open_worker(
                    world, {agent: Agent(agent, typed)}, gateway, replace(config, collector=collector)
                ) as worker,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(worker.work)
                if not await self._through():
                    worker.hand_over()
                    return Exit.WAITING
                async with typed.at_terminal(worker.processes) as program:
                    status = await run_at_terminal(program, seat.places.cwd, typed, lambda: worker.lost)
                code = await self._end(typed, worker, status)
                worker.hand_over()
        return code

    async def _seat(self, gateway: HttpGateway, tenant: str) -> Seat:
        state, base = await self._session.state(), gateway.base_url
        settings: dict[str, Any] = {} if state.opened is None else dict(state.opened.settings)
        door = Door(base, new_token(), base + HOOKS, base + TOOLS)
        places = places_of(self._setup.settings.data, state)
        make_places(places, workspace=False)  # of a fork its home is not there yet
        return Seat(
            tenant=tenant,
            session=self._session.id if state.opened is None else state.opened.session,
            settings=settings,
            places=places,
            door=door,
            say=self._put,
            unsay=self._unsay,
            steer=self._steer,
            mirrored=self._mirrored,
            opened_s=0.0 if state.opened is None else state.opened.at_s,
            environ=os.environ,
        )

    async def _steer(self, text: str, input_id: str) -> None:
        await self._session.steer(text, id=input_id)

    async def _mirrored(self) -> Mapping[str, Sequence[str]]:
        return await read_files((await self._session.state()).files, self._session.value)

    async def _put(self, text: str, input_id: str) -> None:
        await self._session.send(text, id=input_id)

    async def _unsay(self, input_id: str) -> None:
        await take_back(self._session, input_id, self._setup.clock)

    async def _through(self) -> bool:
        """Let what is open go on to its end, and show it. False if it waits for a person."""
        session = self._session
        turns = await left(session)
        if not turns:
            return True
        click.echo(f"session {session.id}: what was cut short goes on first")
        with sink_of(self._setup, session.id) as sink:
            for turn in turns:
                async for event in show(session, turn.follow(), sink):
                    if may_end(event) and event.kind != "turn.settled" and await stands_still(session):
                        click.echo(f"It waits for you: `outlast show {session.id}` has all of it.")
                        return False
        return True

    async def _end(self, typed: Wrapped, worker: Worker, status: int) -> int:
        name = self._session.id
        come_back = f"come back with `outlast wrap --resume {name}`"
        if status != 0 or worker.lost or typed.broken.is_set():
            click.echo(f"session {name}: it ended with status {status}; {come_back}")
            return Exit.DETACHED
        if typed.closed():
            with anyio.move_on_after(SETTLE_S):
                while (await self._session.head()).turn_open:  # noqa: ASYNC110 - soon
                    await anyio.sleep(0.05)
        click.echo(f"session {name}: {come_back}")
        return Exit.OK


async def take_back(session: Session, prompt: str, clock: Clock) -> None:
    """Let no turn come of the input `prompt`, whether or not it is there. Durable when this returns."""
    recall = Recall(prompt, clock.now())
    await session.world.put_input(session.id, input_of(recall, encode_input(recall)))


async def run_at_terminal(program: Program, cwd: Path, typed: Wrapped, lost: Callable[[], bool]) -> int:
    """Run a program that has the terminal to itself, to its end. Returns its exit status."""
    status, words, env = 0, list(program.argv), dict(program.env)
    if (await can_use_pid_namespace()).usable:
        words = pid_namespace_argv(words)
    # What is pressed is the program's business; whoever ends us ends it.
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP) as signals:
        process = await anyio.open_process(words, stdin=None, stdout=None, stderr=None, env=env, cwd=cwd)
        try:
            async with anyio.create_task_group() as tasks:

                async def end_when_told() -> None:
                    async for number in signals:
                        if number in {signal.SIGTERM, signal.SIGHUP}:
                            process.terminate()

                async def end_when_cut_off() -> None:
                    while not (typed.broken.is_set() or lost()):  # noqa: ASYNC110 - it must not miss either
                        await anyio.sleep(0.2)
                    process.kill()

                tasks.start_soon(end_when_told)
                tasks.start_soon(end_when_cut_off)
                status = await process.wait()
                tasks.cancel_scope.cancel()
        finally:
            # Whatever ends us here, nobody carries its turns any more.
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_S):
                if process.returncode is None:
                    process.kill()
                await process.wait()
    return status
