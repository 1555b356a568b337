"""One process of Pi, from its start to the end of the turn."""

import asyncio
from contextlib import suppress
from typing import Final

from outlast.adapter import MAIN, Attempt, Process, TurnResult
from outlast.adapters.pi import stream
from outlast.adapters.pi.dialogue import PiDialogue
from outlast.adapters.pi.ending import result_of
from outlast.adapters.pi.files import SessionFile, plain
from outlast.adapters.pi.gates import NOT_STARTED, lets_run
from outlast.adapters.pi.launch import CONTINUE_COMMAND
from outlast.attaching import images_of, worded
from outlast.errors import HarnessError

START_S: Final = 60.0
"""How long Pi may take from its start to its first request."""
CLOSING_S: Final = 10.0
"""How long Pi may take to end after the turn is over."""


class Driver:
    """Reads what the process says, and answers."""

    def __init__(self, attempt: Attempt, file: SessionFile, process: Process, dialogue: PiDialogue) -> None:
        self._attempt = attempt
        self._dialogue = dialogue
        self._file = file
        self._process = process
        self._last: stream.Answered | None = None
        self._settled = False

    async def run(self, *, say_prompt: bool) -> TurnResult:
        """Carry the turn to its end."""
        attached = await self._attempt.attachments() if say_prompt else ()
        said = plain(worded(self._attempt.prompt, attached)) if say_prompt else CONTINUE_COMMAND
        await self._process.write(stream.prompt(said, images_of(attached)))
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self._steer()), tasks.create_task(self._expect_a_request())]
            try:
                await self._read(tasks)
            finally:
                for task in beside:
                    task.cancel()
        if not self._settled or self._last is None:
            how = await self._how_it_ended()
            raise HarnessError(harness="Pi", reason=f"it {how} before its turn. {self._process.errors()}")
        asked = (call.intent for call in self._attempt.turn.open_calls() if call.intent.kind == "model")
        return result_of(self._last, refused=any(intent.lane == MAIN for intent in asked))

    async def _how_it_ended(self) -> str:
        """What has become of a process that says nothing more; one that lives on is killed with the attempt."""
        try:
            async with asyncio.timeout(CLOSING_S):
                return f"ended with exit status {await self._process.wait()}"
        except TimeoutError:
            return "closed its output and did not end"

    async def _read(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):  # once the turn is over, a process that does not end is not waited for
            async with asyncio.timeout(None) as closing:
                async for line in self._process.lines():
                    await self._take(stream.read(line), tasks)
                    if self._settled and closing.when() is None:
                        closing.reschedule(loop.time() + CLOSING_S)
                        await self._process.close_stdin()

    async def _take(self, event: stream.Event, tasks: asyncio.TaskGroup) -> None:
        match event:
            case stream.Asked():
                tasks.create_task(self._answer(event))
            case stream.Answered():
                self._last = event
            case stream.Settled():
                self._dialogue.over = self._settled = True
                await self._file.mirror()
            case stream.NotTaken("prompt", why):
                raise HarnessError(harness="Pi", reason=f"it does not take the prompt: {why[:500]}")
            case stream.Broken(why):
                raise HarnessError(harness="Pi", reason=f"an extension of it has failed: {why[:500]}")
            case _:
                pass

    async def _answer(self, asked: stream.Asked) -> None:
        """The third gate: a tool runs only if the log says that this attempt let it begin."""
        let = lets_run(self._attempt, asked.call)
        await self._process.write(stream.answer(asked, asked.call if let else NOT_STARTED))

    async def _expect_a_request(self) -> None:
        try:
            async with asyncio.timeout(START_S):
                await self._dialogue.heard.wait()
        except TimeoutError:
            reason = f"it has asked for nothing within {START_S:g} s. {self._process.errors()}"
            raise HarnessError(harness="Pi", reason=reason) from None

    async def _steer(self) -> None:
        await self._dialogue.at_frontier.wait()
        async for steer in self._attempt.steers.arrivals():
            if self._settled:
                return  # its input is closed; the steer becomes the next prompt
            await self._process.write(stream.steer(plain(steer.text)))
