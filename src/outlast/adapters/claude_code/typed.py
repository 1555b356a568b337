"""Claude Code at its user's own terminal: the turns are begun there, and carried by the worker beside it.

One process lives through many turns. A prompt that is typed becomes a turn before Claude Code may ask its model
anything: its hook (`UserPromptSubmit`) puts it into the inbox, under Claude Code's own id of it, and waits until the
worker has claimed and opened it. The turn ends with the `Stop` hook. While no turn is open nothing goes upstream.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from outlast.adapter import MAIN, SIDE, Attempt, Deny, HookAsk, Let, Resolved, TurnResult
from outlast.adapters.claude_code.adapter import ClaudeCode
from outlast.adapters.claude_code.dialogue import ClaudeCodeDialogue
from outlast.adapters.claude_code.files import SessionFiles
from outlast.adapters.claude_code.launch import TYPED
from outlast.adapters.claude_code.transcript import holds, message_ids, parse
from outlast.adapters.shapes import as_list
from outlast.errors import HarnessError
from outlast.recovery import Abilities
from outlast.tool import Tool

OPEN_S: Final = 60.0
"""How long a prompt that was typed waits for its turn to be opened."""
WRITTEN_S: Final = 3.0
"""How long is waited for what Claude Code writes a moment after it has acted."""
LOOK_S: Final = 0.02
UNUSED: Final = '{"type":"api-request'
"""Begins lines of a transcript that are not mirrored."""

INTERRUPTED: Final = "It was interrupted at the terminal."
CLOSED: Final = "Claude Code was closed at the terminal."
ELSEWHERE: Final = "The session is open at a terminal. Type the prompt there, or close it first."

QUEUED: Final = '"type":"queue-operation"'

Send = Callable[[str, str], Awaitable[None]]
"""Puts a prompt into the session's inbox: its text, and its id."""


class TypedClaudeCode:
    """An adapter (`outlast.adapter.Adapter`) for one session, whose turns are typed into a Claude Code.

    Until `opened`, turns are carried without a terminal, as by `ClaudeCode`: those that were cut short.

    Args:
        plain: carries turns without a terminal.
        session: the UUID of the session in Claude Code.
        token: of the program at the terminal, at the gateway.
        send: puts what is typed into the inbox.
    """

    def __init__(self, plain: ClaudeCode, session: str, token: str, send: Send) -> None:
        self._plain = plain
        self._session = session
        self._token = token
        self._send = send
        self._prompt = ""
        """Claude Code's id of the prompt of the open turn."""
        self._heard: set[str] = set()
        """Its ids of everything that was typed in the turn."""
        self._queued = self._taken = self._begins = 0
        """What was typed while it ran, and was taken up when it last came to an end; where its transcript begins."""
        self._so_far: TurnResult | None = None
        """It has come to this end, and goes on with what was typed meanwhile."""
        self._tail: _Tail | None = None
        self._begun = asyncio.Event()
        self._end: asyncio.Future[TurnResult] | None = None
        self._one_by_one = asyncio.Lock()
        self.opened = False
        """The program is at the terminal."""
        self.broken = asyncio.Event()
        """A turn of the terminal's could not be carried on: the program there must end."""

    @property
    def name(self) -> str:
        return self._plain.name

    @property
    def abilities(self) -> Abilities:
        return Abilities("one")

    def versions(self) -> Mapping[str, str]:
        return self._plain.versions()

    def settings(self) -> Mapping[str, Any]:
        return self._plain.settings()

    def check(self) -> list[str]:
        return list(self._plain.check())

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return self._plain.resolve(name, arguments, tools)

    # what the hooks at the terminal say

    async def typed(self, prompt_id: str, text: str) -> bool:
        """A prompt was typed. Returns once its turn is open; False if that could not be had in time."""
        async with self._one_by_one:
            if await self._is_of_turn(prompt_id):
                return True
            self.over(self._so_far or TurnResult("failed", error=INTERRUPTED))
            self._prompt, self._heard, self._so_far = prompt_id, {prompt_id}, None
            self._begun, self._queued = asyncio.Event(), 0
            try:
                async with asyncio.timeout(OPEN_S):
                    await self._send(text, TYPED + prompt_id)
                    await self._begun.wait()
            except TimeoutError:
                return False
        return True

    async def _is_of_turn(self, prompt_id: str) -> bool:
        """Whether something was typed while the turn runs: the next request carries it, or it follows in the same turn.

        What follows has an id of its own, which no hook tells when it begins.
        """
        if self._end is None or self._tail is None or self._end.done():
            return False
        if prompt_id not in self._heard and self._so_far is not None:
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
        self._so_far, self._taken = end, queue.taken
        if not queue.waiting:
            self.over(end)

    def over(self, end: TurnResult) -> bool:
        """The turn has ended at the terminal. False if none is open."""
        running = self._end
        if running is None or running.done():
            return False
        running.set_result(end)
        return True

    def closed(self) -> bool:
        """The program has ended, as its user wanted. False if no turn was open."""
        return self.over(self._so_far or TurnResult("failed", error=CLOSED))

    # what the engine asks

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry a turn on: of the terminal beside it, or one that was cut short without it.

        Raises:
            HarnessError: the turn was cut off from the terminal, or Claude Code cannot be started.
        """
        if not self.opened:
            return await self._plain.advance(attempt)
        if attempt.turn.input != TYPED + self._prompt:
            return TurnResult("failed", error=ELSEWHERE)
        if attempt.resumed:
            self.broken.set()
            raise HarnessError(harness="Claude Code", reason="its turn was cut off from the terminal")
        files = SessionFiles(attempt, self._session)
        tail = _Tail(files, files.go_on())
        dialogue = _TypedDialogue(self._session, tail)
        async with attempt.gateway.admit(attempt, dialogue, self._token):
            self._end, self._tail = asyncio.get_running_loop().create_future(), tail
            self._begins = len(await tail.look())
            try:
                self._begun.set()
                end = await self._end
                last = await _last_answer(attempt)
                await tail.written(lambda lines: not last or last in message_ids(parse(lines)))
            finally:
                self._end = self._tail = None
        return end


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

    async def recorded(self) -> None:
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
