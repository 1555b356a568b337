"""Pi at its user's own terminal: our extension tells what is typed there, and when Pi has come to an end.

What is typed while a turn runs belongs to it, whether Pi is to take it up at once or when it has answered.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from outlast.adapter import Adapter, Attempt, Dialogue, Processes, TurnResult
from outlast.adapters.at_terminal import INTERRUPTED, NOT_OPENED, AtTerminal
from outlast.adapters.hearing import hearing
from outlast.adapters.pi import launch, session
from outlast.adapters.pi.dialogue import PiDialogue, Welcome
from outlast.adapters.pi.files import SessionFile
from outlast.adapters.pi.gates import NOT_STARTED, lets_run
from outlast.adapters.pi.stream import answered
from outlast.adapters.pi.terminal import as_chosen, lay_out
from outlast.adapters.pi.versions import installed
from outlast.adapters.program import user_home
from outlast.adapters.shapes import as_object
from outlast.errors import HarnessError
from outlast.ids import new_id
from outlast.wrapping import TYPED, Program, Seat

WRITTEN_S: Final = 3.0
"""How long the prompt may take to come to stand in Pi's file."""


class TypedPi(AtTerminal):
    """Pi at a terminal (`outlast.wrapping.Wrapped`).

    Args:
        plain: carries turns without a terminal.
        program: another directory than that of `outlast install pi`.
    """

    def __init__(self, plain: Adapter, program: Path | None, seat: Seat) -> None:
        super().__init__(plain, seat, "Pi")
        self._program = program
        self._session = launch.session_uuid(seat.tenant, seat.session)
        self._welcome: Mapping[str, Any] = {}
        self._started: launch.Launch | None = None
        self._file: SessionFile | None = None
        self._prompt_there = False

    # what the extension says

    async def _hear(self, event: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
        match event:
            case "hello":
                return self._welcome
            case "prompt":
                async with self.one_by_one:
                    return await self._typed(str(said.get("text", "")), joins=said.get("joins") is True)
            case "gate":
                call = str(said.get("call", ""))
                attempt = self.attempt
                return {"run": call if attempt is not None and lets_run(attempt, call) else NOT_STARTED}
            case "settled":
                await self._settled(said)
                return {}
            case _:
                return {}

    async def _typed(self, text: str, *, joins: bool) -> Mapping[str, Any]:
        if joins and self.running:
            return {"taken": True} if await self.steer(text) else {"reason": NOT_OPENED}
        prompt = new_id("pi")
        opened = await self.begin(prompt, text)
        return {"taken": True, "turn": TYPED + prompt} if opened else {"reason": NOT_OPENED}

    async def _settled(self, said: Mapping[str, Any]) -> None:
        if self._file is not None:
            await self._file.mirror()
        end = answered(as_object(said.get("message")))
        if said.get("aborted") is True or end.stop == "aborted":
            self.over(TurnResult("failed", end.text, INTERRUPTED))
        elif end.stop in {"stop", "toolUse"}:
            self.over(TurnResult("done", end.text))
        else:
            error = end.error or "the model's answer reached the limit of its length"
            self.over(TurnResult("failed", end.text, error))

    # what it is like at a terminal

    @asynccontextmanager
    async def started(self, processes: Processes) -> AsyncGenerator[Program]:
        """See `AtTerminal`."""
        seat, found = self.seat, installed(self._program)
        api = str(seat.settings.get("api", "anthropic-messages"))
        async with hearing(self._hear, seat.door.token) as terminal_url:
            started = launch.Launch(
                node=found.node,
                program=found.program,
                session=self._session,
                home=seat.places.home,
                door=seat.door,
                api=api,
                model=str(seat.settings.get("model", "")),
                default=found.default_model(launch.provider(api)),
                flags=[str(flag) for flag in seat.settings.get("flags") or ()],
                options=as_object(seat.settings.get("options")),
                tool_home=user_home(seat.environ),
                terminal_url=terminal_url,
            )
            path = launch.session_path(self._session)
            lines = list((await seat.mirrored()).get(path, ()))
            pen = session.Pen(self._session, round(seat.opened_s * 1000))
            started = as_chosen(started, lines)
            lay_out(
                started, found.package, lines or [session.header(str(seat.places.cwd), pen)], seat.environ
            )
            self._welcome = self._dialogue(started).hello()
            self._started = started
            yield Program(launch.argv(started), launch.environment(started, seat.environ))

    def _dialogue(self, started: launch.Launch) -> PiDialogue:
        welcome = Welcome(launch.provider(started.api))
        dialogue = _TypedDialogue(launch.APIS[started.api], welcome, known={}, walks=0, record=self._mirror)
        dialogue.config = launch.provider_config(started)
        return dialogue

    @asynccontextmanager
    async def beside(self, attempt: Attempt) -> AsyncGenerator[Dialogue]:
        """See `AtTerminal`."""
        file = self._file = SessionFile(attempt, self._session)
        await file.go_on()
        self._prompt_there = False
        assert self._started is not None, "a turn is begun by the program at the terminal"
        try:
            yield self._dialogue(self._started)
        finally:
            self._file = None

    async def written(self, attempt: Attempt) -> None:
        """See `AtTerminal`."""
        if self._file is not None:
            await self._file.mirror()

    async def _mirror(self) -> None:
        """The log must have the prompt before any answer: else nothing could be put behind it after a crash."""
        file = self._file
        if file is None:
            return
        with anyio.move_on_after(WRITTEN_S):
            await file.mirror()
            while not (self._prompt_there or file.has_prompt):
                await anyio.sleep(0.02)
                await file.mirror()
            self._prompt_there = True
        if not self._prompt_there:
            raise HarnessError(harness="Pi", reason="the prompt did not reach its file")


class _TypedDialogue(PiDialogue):
    """How a Pi at a terminal speaks: what is typed says the hello."""

    greets: bool = False
