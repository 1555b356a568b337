"""Calls and an attempt in memory: the least that keeps what `outlast.adapter` promises, for tests of the gateway."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import anyio

from outlast.adapter import (
    MAIN,
    Deny,
    Gateway,
    HookAsk,
    Joined,
    Let,
    ModelAsk,
    Opening,
    Parked,
    Places,
    Process,
    Processes,
    Send,
    Served,
    TakenSteer,
    Talk,
    ToolAsk,
    ToolResult,
    WaitAsk,
)
from outlast.attaching import Attachment
from outlast.calls import SpawnAsk
from outlast.clock import Clock, SystemClock
from outlast.documents import Document, Wish
from outlast.fold import SessionState, TurnState
from outlast.gate import Point
from outlast.records import EMPTY, CallIntent, Usage
from outlast.recovery import Step
from outlast.tool import Tool

GOING_ON = "[[go on]]"


@dataclass
class ModelCall:
    """One model call, as the log would have it."""

    number: int
    ask: ModelAsk
    answer: Mapping[str, Any] | None = None
    usage: Usage | None = None
    voided: list[tuple[str, Usage | None]] = field(default_factory=list[tuple[str, Usage | None]])
    steers: list[str] = field(default_factory=list[str])
    running: "asyncio.Future[Mapping[str, Any] | None] | None" = None


class RecordingGate:
    """Writes down what crosses it; holds what comes to a point in `closed`."""

    def __init__(self) -> None:
        self.crossed: list[tuple[Point, int]] = []
        self.closed: dict[Point, anyio.Event] = {}
        self.raises: dict[Point, BaseException] = {}

    def hold(self, point: Point) -> anyio.Event:
        """Hold whatever comes to `point` until the event is set."""
        self.closed[point] = anyio.Event()
        return self.closed[point]

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        self.crossed.append((point, call))
        if point in self.raises:
            raise self.raises[point]
        if point in self.closed:
            await self.closed[point].wait()

    def count(self, point: Point) -> int:
        return sum(crossed == point for crossed, _ in self.crossed)


class MemorySteers:
    """Steers of one attempt."""

    def __init__(self) -> None:
        self.there: list[TakenSteer] = []
        self.taken: list[str] = []

    def waiting(self) -> Sequence[TakenSteer]:
        return [steer for steer in self.there if steer.input not in self.taken]

    async def arrivals(self) -> AsyncIterator[TakenSteer]:
        for steer in self.there:
            yield steer

    def carried(self, input_id: str, lane: str = "") -> None:
        self.taken.append(input_id)


class MemoryCalls:
    """See `outlast.adapter.Calls`."""

    def __init__(self, gate: RecordingGate, steers: MemorySteers, tools: Mapping[str, Tool]) -> None:
        self.models: list[ModelCall] = []
        self.shown: list[tuple[int, str, str]] = []
        self.reached: set[int] = set()
        self.intents: dict[str, CallIntent] = {}
        self.results: dict[str, ToolResult] = {}
        self.corrected: dict[str, ToolResult] = {}
        self.told: dict[str, ToolResult] = {}
        self.started: list[str] = []
        self.ran: list[str] = []
        self.lost: BaseException | None = None
        self.unasked: dict[int, BaseException] = {}
        """By model call, why its answer must not be handed over."""
        self.parked = ""
        self.joined = 0
        self._gate = gate
        self._steers = steers
        self._tools = tools
        self._number = 0

    async def open_model(self, ask: ModelAsk) -> Opening:
        self._alive()
        if self.parked:
            return Parked(self.parked)
        for call in self.models:
            if (call.ask.lane, call.ask.match) == (ask.lane, ask.match) and call.number not in self.reached:
                return self._known(call)
        await self._gate.cross(Point.BEFORE_INTENT)
        call = ModelCall(self._next(), ask, steers=list(self._steers.taken))
        self.models.append(call)
        await self._gate.cross(Point.AFTER_INTENT, call=call.number)
        return self._send(call)

    def _known(self, call: ModelCall) -> Opening:
        if call.answer is not None:
            return Served(call.number, call.answer)
        if call.running is not None:
            running = call.running
            self.joined += 1
            return Joined(call.number, lambda: _wait(running))
        return self._send(call)

    def _send(self, call: ModelCall) -> Send:
        call.running = asyncio.get_running_loop().create_future()
        return Send(call.number)

    async def settle_model(
        self, call: int, answer: Mapping[str, Any], asks: Sequence[ToolAsk], usage: Usage | None
    ) -> None:
        self._alive()
        await self._gate.cross(Point.OUTCOME_QUEUED, call=call)
        found = self._find(call)
        for ask in asks:
            self.grant(ask.harness_id, ask.name)
        found.answer, found.usage = answer, usage
        await self._gate.cross(Point.AFTER_OUTCOME, call=call)
        self._end(found, answer)

    async def void_model(
        self, call: int, reason: str, usage: Usage | None = None, *, retry_after_s: float = 0.0
    ) -> None:
        self.retry_after_s = retry_after_s
        self._alive()
        found = self._find(call)
        found.voided.append((reason, usage))
        self._end(found, None)

    async def begin_unasked(self, call: int) -> None:
        self._alive()
        asked = self.unasked.pop(call, None)
        if asked is not None:
            raise asked

    async def start_tool(
        self, harness_id: str, name: str, arguments: Mapping[str, Any], *, cwd: str = ""
    ) -> Let | Deny:
        self._alive()
        if harness_id not in self.intents:
            return Deny("not granted")
        if harness_id in self.results:
            return Deny(str(self.results[harness_id].value), settled=True)
        self.started.append(harness_id)
        return Let(self.intents[harness_id].call, arguments)

    async def settle_tool(self, harness_id: str, result: ToolResult) -> None:
        self._alive()
        self.results.setdefault(harness_id, result)

    async def run_tool(
        self, name: str, arguments: Mapping[str, Any], *, harness_id: str = "", lane: str = MAIN
    ) -> ToolResult:
        self._alive()
        if harness_id in self.results:
            return self.results[harness_id]
        self.ran.append(harness_id)
        value = await self._tools[name].function(None, **arguments)
        result = value if isinstance(value, ToolResult) else ToolResult("ok", value)
        self.results[harness_id] = result
        return result

    # what only loops do

    async def refuse_model(self, call: int, refusal: Mapping[str, Any], usage: Usage | None = None) -> None:
        raise NotImplementedError

    async def wait(
        self, ask: WaitAsk, *, lane: str = MAIN, pausing: Callable[[int], None] = lambda _: None
    ) -> ToolResult:
        raise NotImplementedError

    async def value(self, name: str, make: Callable[[], object], *, lane: str = MAIN) -> Any:
        raise NotImplementedError

    def ahead(self, lane: str = MAIN) -> CallIntent | None:
        raise NotImplementedError

    async def spawn(
        self, ask: SpawnAsk, *, lane: str = MAIN, pausing: Callable[[int], None] = lambda _: None
    ) -> ToolResult:
        raise NotImplementedError

    async def begin_again(self, state: object) -> None:
        raise NotImplementedError

    async def begun_with(self) -> Any:
        raise NotImplementedError

    async def walked(self) -> None:
        raise NotImplementedError

    def rewind(self, lane: str) -> None:
        raise NotImplementedError

    def pass_by(self, lane: str) -> None:
        raise NotImplementedError

    @property
    def ending(self) -> bool:
        return False

    def result_of(self, harness_id: str) -> ToolResult | None:
        known = self.results.get(harness_id)
        doubtful = known if known is not None and known.status not in {"ok", "error"} else None
        return self.corrected.get(harness_id, doubtful)

    def correct(self, harness_id: str, result: ToolResult, *, told: bool = False) -> None:
        self.corrected[harness_id] = result
        if told:
            self.told[harness_id] = result

    def intent_of(self, harness_id: str) -> CallIntent | None:
        return self.intents.get(harness_id)

    def show(self, call: int, kind: Literal["text", "thinking", "output"], text: str) -> None:
        self.shown.append((call, kind, text))

    def delivered(self, calls: Sequence[int]) -> None:
        self.reached.update(calls)

    def grant(self, harness_id: str, name: str = "Bash") -> None:
        """Write the intent of a tool call."""
        self.intents[harness_id] = CallIntent(
            call=self._next(), turn=1, lane=MAIN, ordinal=0, kind="tool", name=name, harness_id=harness_id
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _find(self, number: int) -> ModelCall:
        return next(call for call in self.models if call.number == number)

    def _end(self, call: ModelCall, answer: Mapping[str, Any] | None) -> None:
        if call.running is not None:
            call.running.set_result(answer)
            call.running = None

    def _alive(self) -> None:
        if self.lost is not None:
            raise self.lost


async def _wait(running: "asyncio.Future[Mapping[str, Any] | None]") -> Mapping[str, Any] | None:
    return await asyncio.shield(running)


class PlainDialogue:
    """A harness without peculiarities but one: resumed, it adds a text that must be taken out again."""

    def __init__(self, *, greets: bool = False, dialect: str = "anthropic") -> None:
        self.greets = greets
        self.dialect = dialect
        self.retries = False
        self.grievance: str | None = None
        self.unnamed: str | None = None
        """Which call one is that came without an id."""
        self.looked = 0
        """How often it was asked whether the log has what the harness wrote."""

    async def recorded(self, *, tool: bool = False) -> None:
        self.looked += 1

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        return self.unnamed

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        return headers.get("x-claude-code-agent-id", MAIN)

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        place = "input" if "input" in request else "messages"
        if isinstance(request[place], str):
            return request
        messages = [_without_going_on(message) for message in request[place]]
        kept = [message for message in messages if message.get("content") != []]
        return {**request, place: kept} if kept != request[place] else request

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        return self.grievance

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        match event:
            case "before":
                return HookAsk("before", payload["id"], payload["name"], payload["input"])
            case "after":
                return HookAsk(
                    "after", payload["id"], payload["name"], result=ToolResult("ok", payload["output"])
                )
            case "hello":
                return HookAsk("hello")
            case _:
                return HookAsk("other")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        match verdict:
            case Let():
                return {"decision": "allow"}
            case Deny(text):
                return {"decision": "deny", "why": text}
            case None:
                return {}


def _without_going_on(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content: Any = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = cast("list[dict[str, Any]]", content)
    return {**message, "content": [block for block in blocks if block.get("text", "").strip() != GOING_ON]}


class _NoProcesses:
    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AbstractAsyncContextManager[Process]:
        raise NotImplementedError


class MemoryAttempt:
    """See `outlast.adapter.Attempt`: what the gateway needs of it."""

    tenant = "default"
    session = "s-1"
    fence = 1
    prompt = "hello"
    resumed = False

    def __init__(self, tools: Mapping[str, Tool] | None = None) -> None:
        self.tools: Mapping[str, Tool] = tools or {}
        self.gate = RecordingGate()
        self.steers = MemorySteers()
        self.calls = MemoryCalls(self.gate, self.steers, self.tools)
        self.clock: Clock = SystemClock()
        self.state = SessionState()
        self.turn = TurnState(turn=1, input="", prompt=EMPTY)
        self.settings: Mapping[str, Any] = {}
        self.plan: Sequence[Step] = ()

    @property
    def gateway(self) -> Gateway:
        raise NotImplementedError

    @property
    def processes(self) -> Processes:
        return _NoProcesses()

    @property
    def places(self) -> Places:
        return Places(Path(), Path())

    async def attachments(self) -> Sequence[Attachment]:
        return ()

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        raise NotImplementedError

    async def mirrored(self) -> Mapping[str, Sequence[str]]:
        return {}

    async def requests(self) -> Mapping[str, Sequence[Any]]:
        return {call.ask.lane: call.ask.messages for call in self.calls.models}

    async def talk(self) -> Talk | None:
        raise NotImplementedError

    async def arguments(self, call: int) -> Mapping[str, Any]:
        raise NotImplementedError

    async def look(self, what: str, path: str, *, lane: str) -> Any:
        raise NotImplementedError

    async def read_document(self, name: str, *, lane: str) -> Document:
        raise NotImplementedError

    async def edit_document(self, wish: Wish, *, lane: str) -> Document:
        raise NotImplementedError

    async def outcome(self, call: int) -> ToolResult:
        raise NotImplementedError

    async def settle(self, call: int, result: ToolResult) -> None:
        raise NotImplementedError

    async def answers(self) -> Mapping[int, Mapping[str, Any]]:
        return {call.number: call.answer for call in self.calls.models if call.answer is not None}


async def until(condition: Callable[[], object], within_s: float = 5.0) -> None:
    """Return when `condition` holds; for what happens in this process's own event loop."""
    with anyio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - it waits for whatever it is told to
            await anyio.sleep(0.002)
