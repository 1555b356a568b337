"""One process of Claude Code, from its start to the end of the turn."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from outlast.adapter import MAIN, Attempt, Process, TurnResult
from outlast.adapters.claude_code import stream
from outlast.adapters.claude_code.dialogue import ClaudeCodeDialogue
from outlast.adapters.claude_code.ending import result_of
from outlast.adapters.claude_code.files import SessionFiles
from outlast.adapters.claude_code.places import mirrored_path
from outlast.adapters.claude_code.user_hooks import UserHooks
from outlast.errors import HarnessError

START_S: Final = 60.0
"""How long Claude Code may take from its start to its first request: it waits for ever if it sees no turn to go on."""
CLOSING_S: Final = 10.0
"""How long Claude Code may take to write its last records after the turn is over."""
MIRROR_S: Final = 20.0
"""How long a tool waits for the prompt to be mirrored before it may run."""

NOT_STARTED: Final = "This call may not run: the log does not say that it has begun in this attempt."
OTHER_ARGUMENTS: Final = "This call may not run: its arguments are not those that the log let begin."
WANTS_A_PERSON: Final = (
    "This call did not run: a rule or a hook in the user's settings wants a person asked first, and nobody is here to "
    "ask. Go on without it, and say what is left to do."
)


class Driver:
    """Reads what the process says, and answers."""

    def __init__(
        self, attempt: Attempt, files: SessionFiles, process: Process, dialogue: ClaudeCodeDialogue
    ) -> None:
        self._attempt = attempt
        self._dialogue = dialogue
        self._files = files
        self._process = process
        self._hooks = UserHooks()
        self._mirrored = asyncio.Event()
        self._end: stream.Finished | None = None
        self._error = ""
        self._version = ""

    async def run(self, *, say_prompt: bool) -> TurnResult:
        """Carry the turn to its end."""
        if say_prompt:
            words, attached = _plain(self._attempt.prompt), await self._attempt.attachments()
            await self._process.write(stream.prompt(words, self._files.prompt_uuid, attached))
        else:
            self._mirrored.set()
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self._steer()), tasks.create_task(self._expect_a_request())]
            try:
                await self._read(tasks)
            finally:
                for task in beside:
                    task.cancel()
        if self._end is None:
            how = await self._how_it_ended()
            raise HarnessError(
                harness="Claude Code", reason=f"it {how} before its turn. {self._process.errors()}"
            )
        return result_of(self._end, self._error)

    async def _how_it_ended(self) -> str:
        """What has become of a process that says nothing more; one that lives on is killed with the attempt."""
        try:
            async with asyncio.timeout(CLOSING_S):
                return f"ended with exit status {await self._process.wait()}"
        except TimeoutError:
            return "closed its output and did not end"

    async def _read(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        with suppress(
            TimeoutError
        ):  # once the turn is over, a process that does not end is not waited for any longer
            async with asyncio.timeout(None) as closing:
                async for line in self._process.lines():
                    event = stream.read(line)
                    if not isinstance(event, stream.Finished):
                        await self._take(event, tasks)
                    elif self._end is None and not self._goes_on(event):
                        self._end = event
                        closing.reschedule(loop.time() + CLOSING_S)
                        await self._process.close_stdin()

    def _goes_on(self, end: stream.Finished) -> bool:
        """Whether a steer that came too late for any request has already begun a turn of its own in the harness.

        Then it belongs to this turn, since a model call carries it; else nothing more goes upstream, and the steer
        becomes the next prompt.
        """
        main = [
            call
            for call in self._attempt.turn.calls.values()
            if call.intent.kind == "model" and call.intent.lane == MAIN
        ]
        # The newest: an earlier one that is open was lost with another process, and this one asked otherwise.
        asking = bool(main) and main[-1].open
        # A call that failed is open too, and nobody asks it again in this process.
        goes_on = end.ok and asking
        self._dialogue.over = not goes_on
        return goes_on

    async def _take(self, event: stream.Event, tasks: asyncio.TaskGroup) -> None:
        self._hooks.take(event, self._attempt.state.next_call - 1)
        match event:
            case stream.Mirrored(path, lines):
                await self._mirror(path, list(lines))
            case stream.Asked():
                tasks.create_task(self._answer(self._with_hooks(event)))
            case stream.Begun():
                self._check(event)
            case stream.Spoken(error):
                self._error = error
            case _:
                pass

    def _with_hooks(self, asked: stream.Asked) -> stream.Asked:
        """The question with what the user's hooks have said of it, which must be read before any later event."""
        intent = self._attempt.calls.intent_of(asked.call)
        wanted = self._hooks.want_person(asked, 0 if intent is None else intent.call)
        return replace(asked, wanted_by_user=asked.wanted_by_user or wanted)

    def _check(self, begun: stream.Begun) -> None:
        self._version = begun.version
        if self._attempt.tools and begun.servers.get("outlast") == "failed":
            raise HarnessError(harness="Claude Code", reason="it could not reach the application's tools")

    async def _mirror(self, path: str, lines: list[str]) -> None:
        below = mirrored_path(path, str(self._attempt.places.home))
        if below is None:
            return
        if self._end is not None:
            lines = self._without_late_steers(lines)
        has_prompt = not self._mirrored.is_set() and self._files.has_prompt(lines)
        await self._files.mirror(below, lines, durable=has_prompt)
        if has_prompt:
            self._mirrored.set()

    def _without_late_steers(self, lines: list[str]) -> list[str]:
        """What belongs to this turn: a steer that is to be the next prompt is not in its transcript."""
        late = [self._files.steer_uuid(steer.input) for steer in self._attempt.steers.waiting()]
        at = next((at for at, line in enumerate(lines) if any(uuid in line for uuid in late)), len(lines))
        return lines[:at]

    async def _answer(self, asked: stream.Asked) -> None:
        """The third gate: a tool runs only if the log says that this attempt let it begin, with these arguments."""
        refusal = await self._refusal(asked)
        if refusal is None:
            await self._process.write(stream.allow(asked, asked.arguments))
        else:
            await self._process.write(stream.deny(asked, refusal))

    async def _refusal(self, asked: stream.Asked) -> str | None:
        calls = self._attempt.calls
        intent = calls.intent_of(asked.call)
        if intent is None:
            return NOT_STARTED
        if intent.runs_in != "worker" and not self._is_started(intent.call):
            return NOT_STARTED
        if not _same(asked.arguments, self._dialogue.hooked.get(asked.call, {})):
            return OTHER_ARGUMENTS
        if asked.wanted_by_user:
            return WANTS_A_PERSON
        try:
            async with asyncio.timeout(MIRROR_S):
                await self._mirrored.wait()
        except TimeoutError:
            return "This call may not run: the transcript did not reach the log in time."
        return None

    def _is_started(self, call: int) -> bool:
        state = self._attempt.turn.calls[call]
        return state.open and state.started == self._attempt.fence

    async def _expect_a_request(self) -> None:
        try:
            async with asyncio.timeout(START_S):
                await self._dialogue.heard.wait()
        except TimeoutError:
            reason = f"it has asked for nothing within {START_S:g} s. {self._process.errors()}"
            raise HarnessError(harness="Claude Code", reason=reason) from None

    async def _steer(self) -> None:
        async for steer in self._attempt.steers.arrivals():
            if self._end is not None:
                return  # its input is closed; the steer becomes the next prompt
            await self._process.write(stream.prompt(_plain(steer.text), self._files.steer_uuid(steer.input)))


def _plain(text: str) -> str:
    """A prompt that Claude Code takes as words: one that begins with a slash would be a command of its own."""
    return f" {text}" if text.lstrip().startswith("/") else text


def _same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return msgspec.json.encode(dict(ours), order="sorted") == msgspec.json.encode(
        dict(theirs), order="sorted"
    )
