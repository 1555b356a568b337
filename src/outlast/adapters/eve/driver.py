"""One server of eve's, from its start to the end of the turn."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx
import msgspec

from outlast.adapter import Attempt, Process, TurnResult, is_passing
from outlast.adapters.eve.dialogue import EveDialogue
from outlast.adapters.eve.state import EveState
from outlast.adapters.program import REFUSED
from outlast.adapters.shapes import as_object
from outlast.errors import HarnessError, ModelCallFailed
from outlast.groups import task_group
from outlast.trust import trusted

START_S: Final = 60.0
"""How long eve may take from its start until it takes a prompt."""
STILL_S: Final = 300.0
"""How long eve may be silent while no call of its turn is under way: it may leave a turn `running` and do nothing."""
_LISTENS: Final = re.compile(rb"https?://127\.0\.0\.1:\d+")
_ENDS: Final = frozenset({"session.waiting", "session.failed", "session.completed"})
_CONFLICT: Final = 409
PAST_US: Final = (
    "the agent's model calls go past outlast: its model must be one of the provider that `door()` sets up"
)
WANTS_A_PERSON: Final = (
    "The agent waits for a person in eve itself (an approval, a question, a sign-in), whom nobody can ask here. Take "
    "it out of the agent, or put it into a rule of outlast's."
)


class Driver:
    """Speaks with the server.

    Args:
        still_s: how long it may be silent while no call of the turn is under way.
    """

    def __init__(
        self,
        attempt: Attempt,
        state: EveState,
        process: Process,
        dialogue: EveDialogue,
        *,
        still_s: float = STILL_S,
    ) -> None:
        self._attempt = attempt
        self._state = state
        self._process = process
        self._dialogue = dialogue
        self._still_s = still_s
        self._heard_s = attempt.clock.elapsed()
        """When the last event came, or a call was last seen under way."""
        self._said = ""
        self._failure: str | None = None
        self._status: int | None = None
        """The provider's, if the failure is one of its."""

    async def run(self) -> TurnResult:
        """Carry the turn to its end.

        Raises:
            HarnessError: eve does not start, ended before the turn, or leaves it undone.
            ModelCallFailed: the provider failed in a way that may pass.
        """
        async with asyncio.TaskGroup() as tasks:
            listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            reading = tasks.create_task(self._read(listening))
            try:
                await self._speak(listening)
            except (TimeoutError, httpx.HTTPError) as error:
                reason = (
                    f"its server cannot be spoken with ({type(error).__name__}). {self._process.errors()}"
                )
                raise HarnessError(harness="eve", reason=reason) from None
            finally:
                reading.cancel()
        await self._process.kill()
        return self._result()

    async def _speak(self, listening: "asyncio.Future[str]") -> None:
        """Begin the turn and follow it to its end."""
        async with asyncio.timeout(START_S):
            url = await listening
        async with httpx.AsyncClient(
            base_url=url, timeout=httpx.Timeout(30.0, read=None), trust_env=False, verify=trusted()
        ) as client:
            session = await self._begin(client)
            async with task_group() as tasks:
                tasks.start_soon(self._watch)
                await self._follow(client, session)
                tasks.cancel_scope.cancel()

    async def _read(self, listening: "asyncio.Future[str]") -> None:
        async for line in self._process.lines():
            found = _LISTENS.search(line)
            if found and not listening.done():
                listening.set_result(found[0].decode())
        if not listening.done():
            reason = f"it ended before it listened. {self._process.errors()}"
            listening.set_exception(HarnessError(harness="eve", reason=reason))

    async def _begin(self, client: httpx.AsyncClient) -> str:
        """Begin the turn, as a session of eve's own: its name."""
        path = "/eve/v1/session"
        async with asyncio.timeout(START_S):
            while True:
                answer = await client.post(path, json={"message": self._attempt.prompt})
                if answer.is_success:
                    return str(answer.json()["sessionId"])
                if answer.status_code != _CONFLICT or "session_not_ready" not in answer.text:
                    reason = f"it does not take the prompt: {answer.status_code} {answer.text[:500]}"
                    raise HarnessError(harness="eve", reason=reason)
                await asyncio.sleep(0.1)

    async def _follow(self, client: httpx.AsyncClient, session: str) -> None:
        """Read the stream to the end of the turn."""
        events = 0
        url = f"/eve/v1/session/{session}/stream"
        async with client.stream("GET", url) as stream:
            stream.raise_for_status()
            async for line in _begun(stream.aiter_lines()):
                self._heard_s = self._attempt.clock.elapsed()
                await self._state.mirror(events, [line])
                events += 1
                if self._take(as_object(msgspec.json.decode(line))):
                    return
        raise HarnessError(harness="eve", reason="its stream ended before the turn")

    async def _watch(self) -> None:
        """Fail when eve has been silent for too long while nothing of the turn was under way."""
        clock = self._attempt.clock
        self._heard_s = clock.elapsed()
        while (left_s := self._heard_s + self._still_s - clock.elapsed()) > 0:
            await asyncio.sleep(left_s)
            if self._attempt.turn.open_calls():
                self._heard_s = clock.elapsed()
        reason = f"it has left the turn undone: nothing was under way for {self._still_s:g} s"
        raise HarnessError(harness="eve", reason=reason)

    def _take(self, event: Mapping[str, Any]) -> bool:
        """Read an event; whether the turn is over with it."""
        data = as_object(event.get("data"))
        match event.get("type"):
            case "message.completed":
                self._said = str(data.get("message", ""))
            case "turn.failed" | "step.failed" | "session.failed":
                self._failure = str(data.get("message", "it failed"))
                status = as_object(data.get("details")).get("statusCode")
                self._status = status if isinstance(status, int) else None
            case "turn.waiting" if data.get("on") == "input":
                self._failure = WANTS_A_PERSON
                return True
            case "turn.completed":
                self._failure = None
            case _:
                pass
        return event.get("type") in _ENDS

    def _result(self) -> TurnResult:
        if self._dialogue.unfit:
            return TurnResult("failed", self._said, self._dialogue.unfit)
        if self._failure is None:
            if not any(call.intent.kind == "model" for call in self._attempt.turn.calls.values()):
                return TurnResult("failed", self._said, PAST_US)
            return TurnResult("done", self._said)
        if REFUSED in self._failure:
            raise HarnessError(harness="eve", reason=self._failure[:500])
        passing = self._status is None or is_passing(self._status)
        if passing and any(call.intent.kind == "model" for call in self._attempt.turn.open_calls()):
            raise ModelCallFailed(status=self._status or "with no whole answer", reason=self._failure[:500])
        return TurnResult("failed", self._said, self._failure)


async def _begun(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """The events in these lines, of which the first must come soon: eve may take a prompt and do nothing."""
    async with asyncio.timeout(START_S) as waiting:
        async for line in lines:
            if line.strip():
                waiting.reschedule(None)
                yield line
