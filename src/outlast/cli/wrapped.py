"""What `outlast wrap` does in the process that its supervisor started: a worker for one session, and its program."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
import click

from outlast.adapter import Agent, Door
from outlast.adapters.claude_code import ClaudeCode, launch
from outlast.adapters.claude_code.places import transcript_path
from outlast.adapters.claude_code.terminal import argv, flags_of, hearing, welcome
from outlast.adapters.claude_code.typed import TypedClaudeCode
from outlast.adapters.claude_code.user import link_user_files, user_home
from outlast.adapters.claude_code.versions import installed
from outlast.cli.attended import stands_still
from outlast.cli.exits import Exit
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup
from outlast.cli.providers import refuse_unusable, upstream_of
from outlast.cli.run import DIRECTORY, left
from outlast.cli.watching import may_end, show, sink_of
from outlast.cli.wishes import WrapWish
from outlast.engine.pidns import can_use_pid_namespace, pid_namespace_argv
from outlast.engine.places import fresh_home, places_of
from outlast.errors import NotFound, SessionExists, SessionUnknown
from outlast.gateway import HttpGateway, open_gateway
from outlast.gateway.app import HOOKS, TOOLS
from outlast.ids import check_session_id, new_id, new_token
from outlast.session import Session
from outlast.worker import Worker, WorkerConfig, open_worker
from outlast.workspaces.local import local
from outlast.world import World

AGENT: Final = "claude-code-terminal"
"""Its sessions are advanced by `outlast wrap` alone: another worker could not show them where they were begun."""
SETTLE_S: Final = 10.0
"""How long the end of the program's last turn may take to be written down."""


async def attend(setup: Setup, wish: WrapWish) -> int:
    """Wrap a program until it ends. Returns the exit code."""
    plain = ClaudeCode()
    for warning in plain.check():
        click.secho(f"outlast: {warning}", fg="yellow", err=True)
    refuse_unusable(setup.settings, os.environ, "claude-code")
    async with setup.world() as world:
        session = await (
            _begin(setup, world, wish, plain) if wish.resume is None else _find(setup, world, wish)
        )
        wrapping = _Wrapping(setup, session, wish)
        return await wrapping.run(world, plain)


async def _begin(setup: Setup, world: World, wish: WrapWish, plain: ClaudeCode) -> Session:
    flags = flags_of(wish.flags)
    name = check_session_id(wish.name) if wish.name else f"claude-{new_id('')[1:9]}"
    if wish.name is not None and await _is_there(world, name):
        raise SessionExists(session=name, difference=f"bring it back with `outlast wrap --resume {name}`")
    workspace = local(Path(), host=machine_id(setup.settings.data))
    return await Session.open(
        world,
        name,
        agent=Agent(AGENT, plain),
        workspace=workspace,
        home=fresh_home(setup.settings.data, name),
        settings={**({"model": flags.model} if flags.model else {}), "terminal": list(flags.others)},
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
        if agent != AGENT:
            hint = f"Its agent is {agent}: `outlast run {agent} … --session {session.id}` goes on with it."
            raise NotFound(detail=f"{session.id} was not begun with `outlast wrap`. {hint}")
        return session
    place = local(Path(), host=machine_id(setup.settings.data))
    page = await world.list(labels={DIRECTORY: place.cwd}, limit=200)
    for head in page.sessions:
        if head.agent == AGENT and head.placement == place.placement:
            return await Session.find(world, head.session)
    raise NotFound(detail=f"Nothing was wrapped in {place.cwd}. `outlast wrap -- claude` begins.")


class _Wrapping:
    """One program at the terminal, and the worker beside it."""

    def __init__(self, setup: Setup, session: Session, wish: WrapWish) -> None:
        self._setup = setup
        self._session = session
        self._wish = wish
        self._token = new_token()

    async def run(self, world: World, plain: ClaudeCode) -> int:
        setup, session = self._setup, self._session
        uuid = launch.session_uuid(world.tenant, session.id)
        typed = TypedClaudeCode(plain, uuid, self._token, self._put)
        agents = {AGENT: Agent(AGENT, typed)}
        config = WorkerConfig(
            data=setup.settings.data,
            machine=machine_id(setup.settings.data),
            lease_s=setup.settings.lease_s,
            supervision=self._wish.supervision,
            clock=setup.clock,
            only=session.id,
            name=new_id("wrap"),
        )
        upstream, code = upstream_of(setup.settings, os.environ), 0
        async with (
            open_gateway(upstream=upstream, clock=setup.clock) as gateway,
            open_worker(world, agents, gateway, config) as worker,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(worker.work)
            if not await self._through():
                worker.hand_over()
                return Exit.WAITING
            typed.opened = True
            status = await self._program(gateway, typed, worker, uuid)
            code = await self._end(typed, worker, status)
            worker.hand_over()
        return code

    async def _put(self, text: str, input_id: str) -> None:
        await self._session.send(text, id=input_id)

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

    async def _program(self, gateway: HttpGateway, typed: TypedClaudeCode, worker: Worker, uuid: str) -> int:
        state = await self._session.state()
        places = places_of(self._setup.settings.data, state)
        settings: dict[str, Any] = {} if state.opened is None else dict(state.opened.settings)
        config = places.home / launch.CONFIG
        link_user_files(config, os.environ)
        welcome(config, str(places.cwd), os.environ)
        door = Door(gateway.base_url, self._token, gateway.base_url + HOOKS, gateway.base_url + TOOLS)
        started = launch.Launch(
            program=installed(None).program,
            session=uuid,
            home=places.home,
            door=door,
            model=str(settings.get("model", "")),
            tools=False,
            tool_home=user_home(os.environ),
        )
        async with hearing(typed, self._token) as hooks:
            there = (places.home / transcript_path(str(places.cwd), uuid)).exists()
            words = argv(started, hooks, settings.get("terminal") or [], resume=there)
            if (await can_use_pid_namespace()).usable:
                words = pid_namespace_argv(words)
            env = launch.environment(started, os.environ, go_on=False)
            return await _at_terminal(list(words), dict(env), places.cwd, typed, lambda: worker.lost)

    async def _end(self, typed: TypedClaudeCode, worker: Worker, status: int) -> int:
        name = self._session.id
        come_back = f"come back with `outlast wrap --resume {name}`"
        if status != 0 or worker.lost or typed.broken.is_set():
            click.echo(f"session {name}: Claude Code ended with status {status}; {come_back}")
            return Exit.DETACHED
        if typed.closed():
            with anyio.move_on_after(SETTLE_S):
                while (await self._session.head()).turn_open:  # noqa: ASYNC110 - soon
                    await anyio.sleep(0.05)
        click.echo(f"session {name}: {come_back}")
        return Exit.OK


async def _at_terminal(
    words: list[str], env: dict[str, str], cwd: Path, typed: TypedClaudeCode, lost: Callable[[], bool]
) -> int:
    """Run a program that has the terminal to itself, to its end. Returns its exit status."""
    status = 0
    # What is pressed is the program's business; whoever ends us ends it.
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP) as signals:
        process = await anyio.open_process(words, stdin=None, stdout=None, stderr=None, env=env, cwd=cwd)
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
    return status
