"""What an agent says of its tool calls, taken to the log: by the ids of its model, or as we have seen it ask.

Where its model calls come through the gateway, the log knows each tool call before the agent does. Where they do not,
what the agent says until it begins a tool stands for the answer of its model.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from outlast.adapter import MAIN, Attempt, Deny, Let, ModelAsk, ToolAsk, ToolResult
from outlast.adapters.program import known_as
from outlast.adapters.shapes import as_object
from outlast.calls import Parked, Send
from outlast.errors import TurnStopped
from outlast.ids import digest

UNKNOWN: Final = "This call did not run: the log does not know it."


class Steps(Protocol):
    """The tool calls of one attempt, as the agent names them."""

    async def begin(self, call: str, name: str, arguments: Mapping[str, Any]) -> Let | Deny:
        """Whether the tool may run now. Durable."""
        ...

    async def seen(self, call: str, name: str, arguments: Mapping[str, Any]) -> None:
        """The agent has begun it without a question."""
        ...

    async def ended(self, call: str, result: ToolResult) -> None: ...

    async def said(self, kind: str, text: str) -> None:
        """The agent speaks or thinks."""
        ...

    async def over(self) -> str:
        """The turn has ended in the agent; returns its last text."""
        ...


class GatewaySteps:
    """Model calls come through the gateway: tool calls are in the log by the ids of the model."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._text = ""
        self._let: dict[str, Let] = {}

    async def begin(self, call: str, name: str, arguments: Mapping[str, Any]) -> Let | Deny:
        calls = self._attempt.calls
        intent = calls.intent_of(call)
        if intent is None:
            return Deny(UNKNOWN)
        if intent.runs_in == "worker":
            return Let(intent.call, arguments)  # it comes to us over MCP, which asks the log
        return await let_once(self._attempt, self._let, call, intent.name, arguments)

    async def seen(self, call: str, name: str, arguments: Mapping[str, Any]) -> None:
        intent = self._attempt.calls.intent_of(call)
        state = None if intent is None else self._attempt.turn.calls.get(intent.call)
        if state is not None and state.open and state.started != self._attempt.fence:
            await self.begin(call, name, arguments)

    async def ended(self, call: str, result: ToolResult) -> None:
        intent = self._attempt.calls.intent_of(call)
        state = None if intent is None else self._attempt.turn.calls.get(intent.call)
        if state is None or not state.open or state.intent.runs_in == "worker":
            return
        if state.started == self._attempt.fence:
            await self._attempt.calls.settle_tool(call, result)

    async def said(self, kind: str, text: str) -> None:
        self._text = self._text + text if kind == "text" else self._text

    async def over(self) -> str:
        return self._text


class SeenSteps:
    """Model calls go past us: each stretch of what the agent says, up to its next tool call, stands for one.

    Args:
        model: what stands in the log as its name.
    """

    def __init__(self, attempt: Attempt, model: str) -> None:
        self._attempt = attempt
        self._model = model
        self._text = ""
        self._call = 0
        """The stretch that is under way; 0 when none is."""
        self._one_at_a_time = asyncio.Lock()
        self._let: dict[str, Let] = {}

    async def begin(self, call: str, name: str, arguments: Mapping[str, Any]) -> Let | Deny:
        async with self._one_at_a_time:
            await self._note(call, name, arguments)
            return await let_once(self._attempt, self._let, call, name, arguments)

    async def seen(self, call: str, name: str, arguments: Mapping[str, Any]) -> None:
        if self._attempt.calls.intent_of(call) is None:
            await self.begin(call, name, arguments)

    async def ended(self, call: str, result: ToolResult) -> None:
        if self._attempt.calls.intent_of(call) is not None:
            await self._attempt.calls.settle_tool(call, result)

    async def said(self, kind: str, text: str) -> None:
        async with self._one_at_a_time:
            await self._open()
            self._attempt.calls.show(self._call, "thinking" if kind == "thinking" else "text", text)
            self._text = self._text + text if kind == "text" else self._text

    async def over(self) -> str:
        async with self._one_at_a_time:
            await self._open()
            return await self._close([])

    async def _note(self, call: str, name: str, arguments: Mapping[str, Any]) -> None:
        if self._attempt.calls.intent_of(call) is None:
            await self._open()
            await self._close([ToolAsk(call, name, arguments)])

    async def _open(self) -> None:
        if self._call:
            return
        attempt = self._attempt
        settled = [
            state for state in attempt.turn.calls.values() if state.intent.kind == "model" and not state.open
        ]
        attempt.calls.delivered([state.intent.call for state in settled])
        match = digest(known_as(attempt).encode(), attempt.turn.input.encode(), str(len(settled)).encode())
        said = [{"role": "user", "content": attempt.prompt}] if not settled else []
        opening = await attempt.calls.open_model(
            ModelAsk(MAIN, self._model, match, {"durable": "by turn"}, said, unseen=True)
        )
        match opening:
            case Send(call=number):
                self._call = number
            case Parked(why=why):
                raise TurnStopped(why)
            case _:
                raise TurnStopped("the log answers for an agent that answers for itself")

    async def _close(self, asks: Sequence[ToolAsk]) -> str:
        call, text = self._call, self._text
        self._call, self._text = 0, ""
        uses = [
            {"type": "tool_use", "id": one.harness_id, "name": one.name, "input": dict(one.arguments)}
            for one in asks
        ]
        content: list[Any] = [*([{"type": "text", "text": text}] if text else []), *uses]
        stop = "tool_use" if asks else "end_turn"
        answer = {"role": "assistant", "content": content, "stop_reason": stop}
        await self._attempt.calls.settle_model(call, answer, asks, None)
        return text


async def let_once(
    attempt: Attempt, let: dict[str, Let], call: str, name: str, arguments: Mapping[str, Any]
) -> Let | Deny:
    """Let a call begin; one that has begun in this attempt may be asked about again, until it ends.

    Agents ask twice about one call: for a command, say, and for a directory that it goes to.
    """
    known = let.get(call)
    state = None if known is None else attempt.turn.calls.get(known.call)
    if known is not None and state is not None and state.open and state.started in {0, attempt.fence}:
        return known
    verdict = await attempt.calls.start_tool(call, name, arguments)
    if isinstance(verdict, Let):
        let[call] = verdict
    return verdict


def as_arguments(raw: object) -> Mapping[str, Any]:
    """What an agent says a tool was given."""
    return as_object(raw) or ({} if raw is None else {"input": raw})
