"""OpenCode at its user's own terminal: its server beside the worker, and its screen, which is attached to that.

Our plugin tells what is typed before OpenCode takes it, under OpenCode's own id of the message; its events tell when it
has come to an end. What is typed while a turn runs belongs to it.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from anyio.abc import TaskGroup

from outlast.adapter import Adapter, Attempt, Dialogue, Process, Processes
from outlast.adapters.at_terminal import ANOTHER, NOT_OPENED, AtTerminal
from outlast.adapters.hearing import hearing
from outlast.adapters.opencode import launch
from outlast.adapters.opencode.client import Client, client_of
from outlast.adapters.opencode.dialogue import OpenCodeDialogue
from outlast.adapters.opencode.ending import ABORTED, typed_end
from outlast.adapters.opencode.events import Stored, aggregate_of, is_root, read
from outlast.adapters.opencode.listening import START_S, base_url_of, failed
from outlast.adapters.opencode.mirror import Mirror
from outlast.adapters.opencode.permissions import Permissions, rules_of, typed_rules
from outlast.adapters.opencode.results import settle_failure
from outlast.adapters.opencode.table import table_of
from outlast.adapters.opencode.terminal import config_of
from outlast.adapters.opencode.versions import installed
from outlast.adapters.program import user_home
from outlast.adapters.shapes import Json, as_object
from outlast.errors import HarnessError
from outlast.groups import task_group
from outlast.ids import stable_uuid
from outlast.wrapping import Program, Seat

FAILED: Final = "The provider failed"
NO_TURN: Final = "This call did not run: no turn is open."


class TypedOpenCode(AtTerminal):
    """OpenCode at a terminal (`outlast.wrapping.Wrapped`).

    Args:
        plain: carries turns without a terminal.
        program: another program than the one that `outlast install opencode` brings.
    """

    def __init__(self, plain: Adapter, program: Path | None, seat: Seat) -> None:
        super().__init__(plain, seat, "OpenCode")
        self._program = program
        self._agent = str(seat.settings.get("agent", ""))
        self._model = launch.model_name(str(seat.settings.get("model", "")))
        self._session = ""
        """The conversation's name in OpenCode."""
        self._client: Client | None = None
        self._mirror: Mirror | None = None
        self._agents: Sequence[Json] = ()
        self._agent_of: dict[str, str] = {}
        """The agent that each message of this turn is of."""
        self._said = False
        """OpenCode has taken the prompt of the open turn."""
        self._error = ""
        self._listened = asyncio.Event()

    # what the plugin at the terminal says

    async def _hear(self, event: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
        if event != "prompt":
            return {}
        session, message = str(said.get("sessionID", "")), str(said.get("messageID", ""))
        text = str(said.get("text", "")) or "(no text)"
        if session != self._session:
            return {"taken": True} if await self._is_below(session) else {"reason": ANOTHER}
        async with self.one_by_one:
            if self.running:
                there = await self.steer(text, message)
            else:
                self._agent_of, self._said, self._error = {}, False, ""
                there = await self.begin(message, text)
        return {"taken": True} if there else {"reason": NOT_OPENED}

    async def _is_below(self, session: str) -> bool:
        """Whether it is a sub-agent's: a call in the log has begun it, and each of its own is asked about."""
        return self._client is not None and self.running and bool(await self._client.above(session))

    # what it is like at a terminal

    @asynccontextmanager
    async def started(self, processes: Processes) -> AsyncGenerator[Program]:
        """See `AtTerminal`."""
        seat, program = self.seat, installed(self._program)
        async with hearing(self._hear, seat.door.token) as typed_url:
            started = launch.Launch(
                program=program.program,
                version=program.version,
                name=stable_uuid("opencode", seat.tenant, seat.session),
                home=seat.places.home,
                door=seat.door,
                password=secrets.token_urlsafe(24),
                model=self._model,
                config=config_of(seat.settings),
                tool_home=user_home(seat.environ),
                table=table_of(program.program, launch.provider_of(self._model)),
                offers=False,
                typed_url=typed_url,
            )
            launch.lay_out(started)
            env, cwd = launch.environment(started, seat.environ), seat.places.cwd
            async with processes.start(launch.argv(started), env=env, cwd=cwd) as process:
                lines = process.lines()
                base_url = await base_url_of(process, lines)
                async with client_of(base_url, started.password) as http, task_group() as tasks:
                    self._client = Client(http)
                    await self._made_ready(self._client, process, tasks)
                    tasks.start_soon(self._drain, lines)
                    yield Program(
                        launch.screen_argv(started, base_url, self._session, cwd),
                        launch.screen_environment(started, seat.environ),
                    )
                    await self._left()
                    tasks.cancel_scope.cancel()

    async def _left(self) -> None:
        """The screen is gone, and its server goes now: what it has written of an open turn is mirrored before."""
        mirror, self._mirror = self._mirror, None
        if mirror is not None:
            with suppress(HarnessError):
                await mirror.take()

    async def _made_ready(self, client: Client, process: Process, tasks: TaskGroup) -> None:
        """Give it the conversation as the log has it, and hear what happens from then on."""
        tasks.start_soon(self._listen, client)
        try:
            async with asyncio.timeout(START_S):
                await self._listened.wait()
        except TimeoutError:
            raise failed(process, f"it has not loaded what it needs after {START_S:g} s") from None
        self._agents = await client.agents()
        sessions = _sessions(await self.seat.mirrored())
        self._session = next((name for name, events in sessions.items() if is_root(events)), "")
        for name, events in sorted(sessions.items(), key=lambda one: one[0] != self._session):
            await client.replay(name, events, str(self.seat.places.cwd))
        if not self._session:
            self._session = await client.create(f"outlast {self.seat.session}", typed_rules())

    async def _drain(self, lines: AsyncIterator[bytes]) -> None:
        async for _ in lines:
            pass
        self.broken.set()

    @asynccontextmanager
    async def beside(self, attempt: Attempt) -> AsyncGenerator[Dialogue]:
        """See `AtTerminal`."""
        assert self._client is not None, "a turn is begun by the program at the terminal"
        known = {name: len(events) - 1 for name, events in _sessions(await attempt.mirrored()).items()}
        mirror = self._mirror = Mirror(attempt, self._client, known, self._session)
        model = self._model
        dialogue = _TypedDialogue((), attempt.turn.at_s, "anthropic" if model is None else model.dialect)
        dialogue.session, dialogue.record = self._session, mirror.take
        try:
            yield dialogue
        finally:
            self._mirror = None

    async def written(self, attempt: Attempt) -> None:
        """See `AtTerminal`."""
        if self._mirror is not None:
            await self._mirror.take()

    # what happens

    async def _listen(self, client: Client) -> None:
        try:
            async with task_group() as answers:
                async for event in client.events():
                    self._listened.set()
                    await self._happened(
                        client, str(event.get("type")), as_object(event.get("properties")), answers
                    )
        except HarnessError:
            pass  # it has ended, which is said below
        self.broken.set()

    async def _happened(self, client: Client, event: str, about: Json, answers: TaskGroup) -> None:
        match event:
            case "permission.asked":
                answers.start_soon(self._permit, client, about)
            case "message.updated":
                info = as_object(about.get("info"))
                self._agent_of[str(info.get("id", ""))] = str(info.get("agent") or info.get("mode") or "")
                self._said = self._said or self.is_prompt(str(info.get("id", "")))
            case "message.part.updated" if self.attempt is not None:
                answers.start_soon(settle_failure, self.attempt, as_object(about.get("part")))
            case "session.error" if about.get("sessionID") == self._session:
                error = as_object(about.get("error"))
                if error.get("name") != ABORTED:
                    self._error = str(as_object(error.get("data")).get("message") or error.get("name") or "")
            case "session.status" if about.get("sessionID") == self._session:
                await self._stands(client, as_object(about.get("status")))
            case _:
                pass

    async def _permit(self, client: Client, asked: Json) -> None:
        """Ask the log about a call, and leave to who sits at the terminal what rules want a person asked about."""
        attempt = self.attempt
        if attempt is None:
            await client.permit(str(asked.get("id", "")), NO_TURN)
            return
        permissions = Permissions(attempt, client, person=True)
        message = str(as_object(asked.get("tool")).get("messageID", ""))
        permissions.rules = rules_of(self._agents, self._agent_of.get(message) or self._agent)
        await permissions.answer(asked)

    async def _stands(self, client: Client, status: Json) -> None:
        match status.get("type"):
            case "retry":
                # It would ask again by itself, and keep half an answer in the conversation.
                self._error = str(status.get("message", "")) or "The provider failed."
                await client.abort(self._session)
                await client.show(FAILED, self._error)
            case "idle" if self.running and self._said:
                end = typed_end(await client.last(self._session), self._error)
                if self._mirror is not None:
                    await self._mirror.take()
                self.over(end)
            case _:
                pass


class _TypedDialogue(OpenCodeDialogue):
    """How an OpenCode at a terminal speaks: its prompts say the hello, and its user sees each failure at once."""

    greets: bool = False
    retries: bool = False


def _sessions(mirrored: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[Stored]]:
    """The events that the log has, of each session of OpenCode's."""
    return {
        name: read(lines)
        for path, lines in mirrored.items()
        if (name := aggregate_of(path)) is not None and lines
    }
