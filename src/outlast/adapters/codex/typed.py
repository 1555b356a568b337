"""Codex at its user's own terminal: a hook tells what is typed there, its rollout when it has come to an end.

A prompt is heard of by `UserPromptSubmit`, under the id of the turn that Codex begins with it; what is typed while it
runs has the same id, and joins its next request.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from outlast.adapter import Adapter, Attempt, Dialogue, Processes, TurnResult
from outlast.adapters.at_terminal import ANOTHER, INTERRUPTED, NOT_OPENED, AtTerminal
from outlast.adapters.codex import launch, terminal
from outlast.adapters.codex.dialogue import CodexDialogue
from outlast.adapters.codex.files import SessionFiles, lay_out
from outlast.adapters.codex.places import rollout_path, thread_id
from outlast.adapters.codex.rollout import event_of
from outlast.adapters.codex.user import bring_user_files
from outlast.adapters.codex.versions import bash, installed
from outlast.adapters.hearing import hearing
from outlast.adapters.program import user_home
from outlast.adapters.shapes import Json, as_object
from outlast.errors import HarnessError
from outlast.groups import task_group
from outlast.wrapping import Program, Seat

LOOK_S: Final = 0.2
"""How often the rollout is looked at."""
WRITTEN_S: Final = 3.0
"""How long the prompt may take to come to stand in the rollout."""
_LET: Final = {"outlast": "let"}


class TypedCodex(AtTerminal):
    """Codex at a terminal (`outlast.wrapping.Wrapped`).

    Args:
        plain: carries turns without a terminal.
        program: another program than the one that `outlast install codex` brings.
    """

    def __init__(self, plain: Adapter, program: Path | None, seat: Seat) -> None:
        super().__init__(plain, seat, "Codex")
        self._program = program
        self._thread = thread_id(seat.tenant, seat.session)
        self._files: SessionFiles | None = None
        self._turn = ""
        """Codex's id of the open turn."""
        self._error = ""

    # what the hook at the terminal says

    async def _hear(self, event: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
        if event != launch.TYPED:
            return _LET
        if said.get("session_id") != self._thread:
            return _deny(ANOTHER)
        turn, text = str(said.get("turn_id", "")), str(said.get("prompt", ""))
        async with self.one_by_one:
            await self._look()
            if self.running and turn == self._turn:
                there = await self.steer(text)
            else:
                self._turn, self._error = turn, ""
                there = await self.begin(turn, text)
        return _LET if there else _deny(NOT_OPENED)

    # what it is like at a terminal

    @asynccontextmanager
    async def started(self, processes: Processes) -> AsyncGenerator[Program]:
        """See `AtTerminal`."""
        seat = self.seat
        program, home = installed(self._program), seat.places.home
        async with hearing(
            self._hear, seat.door.token, refusal=_deny("This is not your outlast.")
        ) as typed_url:
            mirrored = await seat.mirrored()
            path = rollout_path(self._thread, seat.opened_s)
            lines = mirrored.get(path, ())
            terms = terminal.terms_of(seat.settings, ())
            started = launch.Launch(
                program=program.program,
                thread=self._thread,
                home=home,
                door=seat.door,
                model=terms.model,
                config=as_object(seat.settings.get("config")),
                tool_home=user_home(seat.environ),
                bash=bash(),
                approval=terms.approval,
                sandbox=terms.sandbox,
                typed_url=typed_url,
            )
            founding = launch.founding(started, seat.places.cwd, {}, seat.opened_s, program.version)
            configuration = terminal.files(started, seat.environ)
            await anyio.to_thread.run_sync(lay_out, home, self._thread, path, configuration, founding, lines)
            bring_user_files(started.codex_home, seat.environ)
            flags = [str(flag) for flag in seat.settings.get("terminal") or ()]
            yield Program(terminal.argv(started, flags), launch.environment(started, seat.environ))

    @asynccontextmanager
    async def beside(self, attempt: Attempt) -> AsyncGenerator[Dialogue]:
        """See `AtTerminal`."""
        files = self._files = SessionFiles(attempt, self._thread)
        await files.go_on()
        try:
            async with task_group() as tasks:
                tasks.start_soon(self._watch)
                yield _TypedDialogue(self._thread, files, self._look)
                tasks.cancel_scope.cancel()
        finally:
            self._files = None

    async def written(self, attempt: Attempt) -> None:
        """See `AtTerminal`."""
        await self._look()

    async def _watch(self) -> None:
        while True:
            await self._look()
            await anyio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Mirror what is there; it tells when the turn has come to an end."""
        if self._files is None:
            return
        for record in await self._files.take():
            said = as_object(record.get("payload"))
            match event_of(record):
                case "error":
                    self._error = str(said.get("message") or "Codex gave up.")
                case "task_complete" if said.get("turn_id") == self._turn:
                    self.over(self._ended(said))
                case "turn_aborted" if said.get("turn_id") == self._turn:
                    self.over(TurnResult("failed", error=INTERRUPTED))
                case _:
                    pass

    def _ended(self, said: Json) -> TurnResult:
        text = said.get("last_agent_message")
        failed = as_object(said.get("error")).get("message") or self._error
        if failed:
            return TurnResult("failed", text or "", str(failed))
        return TurnResult("done", text or "")


class _TypedDialogue(CodexDialogue):
    """How a Codex at a terminal speaks: its user is its third gate, and its prompts' hook says the hello."""

    greets: bool = False

    def __init__(self, thread: str, files: SessionFiles, look: Callable[[], Any]) -> None:
        super().__init__(thread, (), look)
        self._files = files

    async def recorded(self, *, tool: bool = False) -> None:
        """The log must have the prompt before any answer: else nothing could be put behind it after a crash."""
        with anyio.move_on_after(WRITTEN_S):
            await super().recorded()
            while not self._files.said:
                await anyio.sleep(0.02)
                await super().recorded()
        if not self._files.said:
            raise HarnessError(harness="Codex", reason="the prompt did not reach its rollout")


def _deny(reason: str) -> Mapping[str, Any]:
    return {"outlast": "deny", "reason": reason}
