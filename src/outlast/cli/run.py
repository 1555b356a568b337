"""`outlast run`: begin a turn, or come back to the one that is open, and watch it here."""

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import click
import msgspec

from outlast.adapter import Agent
from outlast.cli.agents import built_in, of_application
from outlast.cli.exits import Exit
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup, perform, shared
from outlast.cli.printer import Printer, outcome_code
from outlast.cli.work import worker_argv
from outlast.errors import BadInput
from outlast.ids import check_session_id, new_id
from outlast.records.events import Event
from outlast.session import Session, Turn
from outlast.workspaces.local import local
from outlast.world import World


@click.command()
@click.argument("agent")
@click.argument("prompt", required=False)
@click.option("--session", "name", help="The session's id; by default made from the prompt.")
@click.option("--model", help="The model that the harness asks for.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), default=".", help="Where it works.")
@click.option("--detach", is_flag=True, help="Only begin; some `outlast work` carries it out.")
@shared
def run(
    agent: str,
    prompt: str | None,
    name: str | None,
    model: str | None,
    cwd: str,
    detach: bool,
    world: str | None,
    json: bool,
) -> None:
    """Have AGENT carry out PROMPT in the current directory, and show it as it happens.

    AGENT is `claude-code` or MODULE:AGENT of your own. Without PROMPT, an open turn of --session is resumed and shown.
    Ctrl-C asks whether to detach (it goes on with `outlast work`) or to cancel the turn.
    """

    async def body(setup: Setup) -> int:
        found = of_application(agent) if ":" in agent else built_in(agent)
        for warning in found.adapter.check():
            click.secho(f"outlast: {warning}", fg="yellow", err=True)
        async with setup.world() as opened:
            wish = Wish(found, name, prompt, Path(cwd), {"model": model} if model else {})
            session, begun = await _open(setup, opened, wish)
            if detach:
                setup.say(
                    {"session": session.id, "input": begun.input if begun else None}, _come_back(session.id)
                )
                return Exit.OK
            return await _watch(setup, session, begun, agent)

    perform(body, world=world, json=json)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for."""

    agent: Agent
    name: str | None
    prompt: str | None
    cwd: Path
    settings: Mapping[str, str]


async def _open(setup: Setup, world: World, wish: Wish) -> tuple[Session, Turn | None]:
    """The session to watch, and the turn that was begun in it, if one was."""
    if wish.prompt is None:
        if wish.name is None:
            raise BadInput(detail="Give a PROMPT to begin with, or --session to come back to.")
        return await Session.find(world, wish.name), None
    session_id = check_session_id(wish.name or session_name(wish.prompt))
    session = await Session.open(
        world,
        session_id,
        agent=wish.agent,
        workspace=local(wish.cwd, host=machine_id(setup.settings.data)),
        home=setup.settings.data.absolute() / "homes" / session_id,
        settings=wish.settings,
    )
    return session, await session.send(wish.prompt)


def session_name(prompt: str) -> str:
    """A readable id: the first words of the prompt and four random characters."""
    words = re.findall(r"[a-z0-9]+", prompt.lower())
    telling = [word for word in words if len(word) > 3][:2] or words[:2] or ["session"]
    return f"{'-'.join(telling)[:40]}-{new_id('')[1:5]}"


async def _watch(setup: Setup, session: Session, begun: Turn | None, agent: str) -> int:
    """Show the session until its turn ends, with a worker of our own beside."""
    title = await _title(session, agent)
    if not setup.json:
        click.echo(title)
    stop = anyio.Event()
    result = [int(Exit.DETACHED)]
    async with _worker(setup, session, agent), anyio.create_task_group() as tasks:
        tasks.start_soon(_ask_on_interrupt, setup, session, stop)

        async def show() -> None:
            result[0] = await _show(setup, session, begun)
            stop.set()

        tasks.start_soon(show)
        await stop.wait()
        tasks.cancel_scope.cancel()
    if result[0] in {Exit.DETACHED, Exit.WAITING} and not setup.json:
        click.echo(_come_back(session.id))
    return result[0]


async def _title(session: Session, agent: str) -> str:
    state = await session.state()
    where = state.opened.cwd if state.opened is not None else ""
    return f"session {session.id} · {agent} · {where} (local: not isolated)"


def _come_back(session: str) -> str:
    return f"It goes on with `outlast work`; come back with `outlast follow {session}`."


async def _show(setup: Setup, session: Session, begun: Turn | None) -> int:
    printer = Printer(session.id)
    source = session.follow() if begun is None else begun.follow()
    seen_open = False
    with printer:
        async for event in source:
            if setup.json:
                click.echo(msgspec.json.encode(event).decode())
            else:
                printer.apply(event)
            seen_open = seen_open or event.kind == "turn.opened"
            if event.kind in {"turn.settled", "turn.parked"} and await _is_last(session, event):
                return outcome_code(event.status)
    return Exit.OK


async def _is_last(session: Session, event: Event) -> bool:
    """Nothing is left to wait for: no turn is open behind this one, or it is parked."""
    head = await session.head()
    return head.parked or not head.turn_open or event.turn == (await session.state()).next_turn - 1


@asynccontextmanager
async def _worker(setup: Setup, session: Session, agent: str) -> AsyncIterator[None]:
    """A worker for this session only, in a process of its own; it hands over when we leave."""
    arguments = ["--session", session.id, "--world", setup.settings.world_url]
    if ":" in agent:
        arguments.insert(0, agent)
    process = subprocess.Popen(  # noqa: ASYNC220 - it is only started and ended here
        worker_argv(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_reap, process)


def _reap(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _ask_on_interrupt(setup: Setup, session: Session, stop: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            choice = "d"
            if number == signal.SIGINT and sys.stdin.isatty() and not setup.json:
                click.echo(
                    "\n[d]etach and let it go on with a worker, [c]ancel the turn, [g]o on watching? ",
                    nl=False,
                    err=True,
                )
                choice = (await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)).strip()[
                    :1
                ] or "d"
            if choice == "g":
                continue
            if choice == "c":
                await session.cancel(reason="cancelled at the terminal")
                continue
            if not setup.json:
                click.echo("detached.")
            stop.set()
            return
