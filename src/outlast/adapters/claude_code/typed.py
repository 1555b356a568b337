"""Claude Code at its user's own terminal: its hooks tell what is typed there, and when it has come to an end.

A prompt is heard of by `UserPromptSubmit`, under Claude Code's own id of it; the turn ends with the `Stop` hook, unless
something that was typed meanwhile follows.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from outlast.adapter import MAIN, SIDE, Adapter, Attempt, Deny, Dialogue, HookAsk, Let, Processes, TurnResult
from outlast.adapters.at_terminal import NOT_OPENED, AtTerminal
from outlast.adapters.claude_code import launch, terminal
from outlast.adapters.claude_code.dialogue import ClaudeCodeDialogue
from outlast.adapters.claude_code.files import SessionFiles
from outlast.adapters.claude_code.laying import bring
from outlast.adapters.claude_code.places import transcript_path
from outlast.adapters.claude_code.transcript import holds, message_ids, parse
from outlast.adapters.claude_code.user import link_user_files
from outlast.adapters.claude_code.versions import installed
from outlast.adapters.hearing import hearing
from outlast.adapters.program import past_proxies, user_home
from outlast.adapters.shapes import as_list
from outlast.errors import HarnessError
from outlast.wrapping import Program, Seat

WRITTEN_S: Final = 3.0
"""How long is waited for what Claude Code writes a moment after it has acted."""
LOOK_S: Final = 0.02
UNUSED: Final = '{"type":"api-request'
"""Begins lines of a transcript that are not mirrored."""

QUEUED: Final = '"type":"queue-operation"'
REFUSED: Final = {"decision": "block", "reason": "This is not your outlast."}


class TypedClaudeCode(AtTerminal):
    """Claude Code at a terminal (`outlast.wrapping.Wrapped`).

    Args:
        plain: carries turns without a terminal.
        program: another program than the one inside `claude-agent-sdk`.
    """

    def __init__(self, plain: Adapter, program: Path | None, seat: Seat) -> None:
        super().__init__(plain, seat, "Claude Code")
        self._program = program
        self._session = launch.session_uuid(seat.tenant, seat.session)
        self._heard: set[str] = set()
        """Claude Code's ids of everything that was typed in the turn."""
        self._queued = self._taken = self._begins = 0
        """What was typed while it ran, and was taken up when it last came to an end; where its transcript begins."""
        self._tail: _Tail | None = None

    # what the hooks at the terminal say

    async def typed(self, prompt_id: str, text: str) -> bool:
        """A prompt was typed. Returns once its turn is open; False if that could not be had in time."""
        async with self.one_by_one:
            if await self._is_of_turn(prompt_id):
                return True
            self._heard, self._queued = {prompt_id}, 0
            return await self.begin(prompt_id, text)

    async def _is_of_turn(self, prompt_id: str) -> bool:
        """Whether something was typed while the turn runs: the next request carries it, or it follows in the same turn.

        What follows has an id of its own, which no hook tells when it begins.
        """
        if not self.running or self._tail is None:
            return False
        if prompt_id not in self._heard and self.so_far is not None:
            taken = _queue((await self._tail.look())[self._begins :]).taken
            if taken > self._taken:
                self._heard.add(prompt_id)
        self._queued += prompt_id in self._heard
        return prompt_id in self._heard

    async def stopped(self, end: TurnResult) -> None:
        """Claude Code has come to an end; with the turn, unless something that was typed meanwhile follows."""
        tail = self._tail
        if tail is None:
            return
        await tail.written(lambda lines: _queue(lines[self._begins :]).put >= self._queued)
        queue = _queue((await tail.look())[self._begins :])
        self.so_far, self._taken = end, queue.taken
        if not queue.waiting:
            self.over(end)

    async def _hear(self, event: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
        match event:
            case "prompt":
                if not await self.typed(str(said.get("prompt_id", "")), str(said.get("prompt", ""))):
                    return {"decision": "block", "reason": NOT_OPENED}
            case "stop":
                await self.stopped(TurnResult("done", said.get("last_assistant_message")))
            case "failure":
                error = said.get("error") or said.get("last_assistant_message") or "Claude Code gave up."
                await self.stopped(TurnResult("failed", error=str(error)))
            case _:
                pass
        return {"continue": True}

    # what it is like at a terminal

    @asynccontextmanager
    async def started(self, processes: Processes) -> AsyncGenerator[Program]:
        """See `AtTerminal`."""
        seat = self.seat
        config, cwd = seat.places.home / launch.CONFIG, str(seat.places.cwd)
        link_user_files(config, seat.environ)
        terminal.welcome(config, cwd, seat.environ)
        started = launch.Launch(
            program=installed(self._program).program,
            session=self._session,
            home=seat.places.home,
            door=seat.door,
            model=str(seat.settings.get("model", "")),
            tools=False,
            tool_home=user_home(seat.environ),
            direct=past_proxies(seat.environ),
        )
        async with hearing(self._hear, seat.door.token, refusal=REFUSED) as hooks:
            there = bring(
                seat.places.home, transcript_path(cwd, self._session), self._session, await seat.mirrored()
            )
            flags = [str(flag) for flag in seat.settings.get("terminal") or ()]
            env = launch.environment(started, seat.environ, go_on=False)
            yield Program(terminal.argv(started, hooks, flags, resume=there), env)

    @asynccontextmanager
    async def beside(self, attempt: Attempt) -> AsyncGenerator[Dialogue]:
        """See `AtTerminal`."""
        files = SessionFiles(attempt, self._session)
        tail = _Tail(files, files.go_on())
        self._begins = len(await tail.look())
        self._tail = tail
        try:
            yield _TypedDialogue(self._session, tail)
        finally:
            self._tail = None

    async def written(self, attempt: Attempt) -> None:
        """See `AtTerminal`."""
        last = await _last_answer(attempt)
        if self._tail is not None:
            await self._tail.written(lambda lines: not last or last in message_ids(parse(lines)))


class _Tail:
    """The transcript, as Claude Code writes it."""

    def __init__(self, files: SessionFiles, path: Path) -> None:
        self._files = files
        self._path = anyio.Path(path)
        self._lines: list[str] = []
        self._read = 0
        self._mirroring = asyncio.Lock()

    def has_prompt(self) -> bool:
        """Whether it holds the prompt of the turn."""
        name = self._files.prompt_uuid
        return any(holds(parse([line]), name) for line in self._lines if name in line)

    async def look(self) -> list[str]:
        """Mirror what is there. Returns all of it."""
        async with self._mirroring:
            try:
                async with await anyio.open_file(self._path, "rb") as file:
                    await file.seek(self._read)
                    data = await file.read()
            except FileNotFoundError:
                return self._lines
            whole = data[: data.rfind(b"\n") + 1]
            self._read += len(whole)
            fresh = whole.decode(errors="replace").split("\n")[:-1]
            self._lines += [line for line in fresh if not line.startswith(UNUSED)]
            await self._files.mirror_transcript(self._lines)
            return self._lines

    async def written(self, enough: Callable[[list[str]], bool]) -> None:
        """Mirror until it holds what was wanted, or for a while."""
        with anyio.move_on_after(WRITTEN_S):
            while not enough(await self.look()):  # noqa: ASYNC110 - files tell nobody
                await anyio.sleep(LOOK_S)


@dataclass(frozen=True, slots=True)
class _Queue:
    """What was typed while Claude Code was at work, as its transcript tells."""

    put: int
    taken: int
    waiting: int


def _queue(lines: list[str]) -> _Queue:
    put = taken = waiting = 0
    for record in parse([line for line in lines if QUEUED in line]):
        match record.get("operation"):
            case "enqueue":
                put, waiting = put + 1, waiting + 1
            case "popAll":
                waiting = 0
            case operation:
                taken, waiting = taken + (operation == "dequeue"), max(0, waiting - 1)
    return _Queue(put, taken, waiting)


async def _last_answer(attempt: Attempt) -> str:
    """The id of the newest answer of the main conversation in this turn; empty if there is none."""
    answers = await attempt.answers()
    main = (call for call in attempt.turn.calls.values() if call.intent.lane == MAIN)
    ids = [str(answers[call.intent.call].get("id")) for call in main if call.intent.call in answers]
    return ids[-1] if ids else ""


class _TypedDialogue(ClaudeCodeDialogue):
    """How a Claude Code at a terminal speaks: its user is its third gate, and its prompts' hook says the hello."""

    greets: bool = False

    def __init__(self, session: str, tail: _Tail) -> None:
        super().__init__(session, ())
        self._tail = tail
        self._prompt_there = False

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        lane = super().lane_of(headers, request)
        # Titles, suggestions and the like are no part of the conversation.
        return f"{SIDE}aside" if lane == MAIN and not as_list(request.get("tools")) else lane

    async def recorded(self, *, tool: bool = False) -> None:
        """The log must have the prompt before any answer: else nothing could be put behind it after a crash."""
        if self._prompt_there:
            await self._tail.look()
            return
        await self._tail.written(lambda _: self._tail.has_prompt())
        self._prompt_there = self._tail.has_prompt()
        if not self._prompt_there:
            raise HarnessError(harness="Claude Code", reason="the prompt did not reach its transcript")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        """What the log lets begin, the user's own rules and the user decide about."""
        return {"continue": True} if isinstance(verdict, Let) else super().hook_answer(ask, verdict)
