"""A turn that somebody watches at their terminal, with a worker of its own beside."""

import os
import sys
from dataclasses import dataclass
from typing import Any

import anyio
import click
import msgspec

from outlast.cli.awaited import Awaited, awaited_by, lines_of
from outlast.cli.companion import Companion, accompanied
from outlast.cli.dialogue import ask_on_interrupt
from outlast.cli.exits import Exit, hush, outcome_code
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup
from outlast.cli.text import plain
from outlast.cli.watching import Sink, inputs_of, may_end, show, sink_of, ticking
from outlast.engine.rulings import is_question
from outlast.records import Prompt, Steer
from outlast.records.events import Event
from outlast.session import Session, Turn

INTERACTIVE_HINT = "Ctrl-C: detach or cancel"


@dataclass(frozen=True, slots=True)
class Attended:
    """What is watched."""

    session: Session
    turns: list[Turn]
    """In their order; the last one's end is the end."""
    agent: str
    """As the command line names it."""
    title: str

    @property
    def come_back(self) -> str:
        """How to go on without us."""
        work = f"outlast work {self.agent}" if ":" in self.agent else "outlast work"
        return f"It goes on with `{work}`; come back with `outlast follow {self.session.id}`."


async def attend(setup: Setup, attended: Attended) -> int:
    """Watch until the last turn ends, is parked, or the person leaves. Returns the exit code."""
    interactive = sys.stdin.isatty() and not setup.json
    sink = sink_of(setup, attended.session.id, hint=INTERACTIVE_HINT if interactive else "")
    watch = _Watch(setup, attended, sink)
    try:
        watch.hello()
        with sink:
            note = await _placed_elsewhere(setup, attended.session)
            if note:
                sink.note(note)
            async with accompanied(_companion(setup, attended, sink)), anyio.create_task_group() as tasks:

                def cancel() -> None:
                    tasks.start_soon(watch.cancel)

                tasks.start_soon(watch.run, tasks.cancel_scope)
                await ask_on_interrupt(sink, cancel, interactive=interactive)
                tasks.cancel_scope.cancel()
    except* BrokenPipeError:
        hush()
    watch.goodbye()
    return watch.code


class _Watch:
    def __init__(self, setup: Setup, attended: Attended, sink: Sink) -> None:
        self._setup = setup
        self._attended = attended
        self._sink = sink
        self._turn = attended.turns[0]
        self._last: Event | None = None
        self._awaits: list[Awaited] = []
        self.code = Exit.DETACHED

    def hello(self) -> None:
        session = self._attended.session.id
        value = {"session": session, "inputs": [turn.input for turn in self._attended.turns]}
        self._setup.say(value, f"session {session} · {plain(self._attended.title)}")

    async def run(self, scope: anyio.CancelScope) -> None:
        """Show the turns one after the other, then end `scope`."""
        async with ticking(self._sink):
            for turn in self._attended.turns:
                self._turn = turn
                if await self._parked(turn):
                    break
        scope.cancel()

    async def _parked(self, turn: Turn) -> bool:
        """Show a turn. True if it stands still until a person acts."""
        session = self._attended.session
        async for event in show(session, turn.follow(), self._sink):
            if event.kind == "turn.settled":
                self.code, self._last = outcome_code(event.status), event
            elif may_end(event) and await stands_still(session):
                self.code, self._last = Exit.WAITING, event
                self._awaits = await awaited_by(session, await session.state())
                return True
        return False

    async def cancel(self) -> None:
        await self._turn.cancel("cancelled at the terminal")

    def goodbye(self) -> None:
        """Say how it ended, and how to come back where it has not."""
        session = self._attended.session.id
        if self._setup.json:
            click.echo(msgspec.json.encode(self._result()).decode())
        elif self.code == Exit.DETACHED:
            click.echo(f"detached. {self._attended.come_back}")
        elif self.code == Exit.WAITING:
            told = [f"It waits for you: `outlast show {session}` has all of it.", *lines_of(self._awaits)]
            click.echo("\n".join(told))

    def _result(self) -> dict[str, Any]:
        event = self._last
        if event is None:
            return {"session": self._attended.session.id, "status": "detached", "exit": self.code}
        return {
            "session": self._attended.session.id,
            "turn": event.turn,
            "status": event.status,
            "result": event.payload.value(),
            "error": event.text,
            "usage": event.usage,
            "awaits": self._awaits,
            "exit": self.code,
        }


def _companion(setup: Setup, attended: Attended, sink: Sink) -> Companion:
    agents = (attended.agent,) if ":" in attended.agent else ()
    environ = {**os.environ, "OUTLAST_WORLD": setup.settings.world_url}
    return Companion((*agents, "--session", attended.session.id), environ, sink.note)


async def stands_still(session: Session) -> bool:
    """The open turn waits for a person, and nothing that ends or releases it is on its way."""
    on_its_way = await inputs_of(session)  # read first: what is taken out after it stands in the log
    turn = (await session.state()).turn
    if turn is None or not all(isinstance(value, (Prompt, Steer)) for _, value in on_its_way):
        return False
    asks = turn.waits and any(is_question(call) for call in turn.open_calls())
    return turn.parked is not None or asks


async def _placed_elsewhere(setup: Setup, session: Session) -> str:
    placement = (await session.head()).placement
    if placement in {"any", f"host:{machine_id(setup.settings.data)}"}:
        return ""
    return f"Its files are on another machine ({placement}): only a worker there can carry it on."
