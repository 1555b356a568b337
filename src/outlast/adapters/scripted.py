"""A harness that follows a list: for tests, benchmarks, and as the smallest example of an adapter.

It has no model and no process. Its turn is a list of steps, in the agent's settings or in the prompt; a taken-over
turn walks the list again and every finished call is read from the log. A `model` step may ask for tools, as a real
model's answer does; such calls are granted with the answer, and run in the worker or in the harness itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from outlast.adapter import (
    MAIN,
    Attempt,
    Deny,
    ModelAsk,
    Parked,
    Resolved,
    Send,
    Served,
    ToolAsk,
    ToolResult,
    TurnResult,
)
from outlast.errors import BadInput, TurnStopped
from outlast.gate import Point
from outlast.ids import digest
from outlast.inquiry import Inquiry
from outlast.records import Usage
from outlast.records.kinds import OnDoubt, Policy
from outlast.recovery import Abilities
from outlast.tool import Tool


class ToolStep(msgspec.Struct, frozen=True, tag="tool", tag_field="do"):
    """Call a tool."""

    name: str
    arguments: dict[str, Any] = {}


class ModelStep(msgspec.Struct, frozen=True, tag="model", tag_field="do"):
    """Make a model call that says `text`, word by word, and asks for `tools`, which then run at once."""

    text: str
    tools: list[ToolStep] = []
    usage: Usage = Usage()


class BatchStep(msgspec.Struct, frozen=True, tag="batch", tag_field="do"):
    """Call several tools at once, each in a lane of its own."""

    tools: list[ToolStep]


Script = list[ToolStep | ModelStep | BatchStep]
Model = Callable[[str], AsyncGenerator[str, None]]


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A tool of the harness's own: the worker only says whether it may run, and records how it ended."""

    function: Callable[[Mapping[str, Any]], Awaitable[object]]
    policy: Policy = "never"
    on_doubt: OnDoubt = "tell"
    inquiry: Callable[[Mapping[str, Any]], Inquiry] | None = None
    """Makes what can be asked about a call with these arguments."""


class Scripted:
    """Carries a turn by a script. The prompt is the script as JSON, or the settings hold it under `script`.

    Args:
        model: answers the text of a `model` step, piece by piece; by default with that text, word by word.
        built_ins: the harness's own tools, by name.
        abilities: what it can do about interrupted calls.
    """

    def __init__(
        self,
        *,
        script: Sequence[Mapping[str, Any]] = (),
        model: Model | None = None,
        built_ins: Mapping[str, BuiltIn] | None = None,
        abilities: Abilities | None = None,
    ) -> None:
        self._script = list(script)
        self._model = model or _words
        self._built_ins = dict(built_ins or {})
        self._abilities = abilities or Abilities("all", waits=True)

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def abilities(self) -> Abilities:
        return self._abilities

    def versions(self) -> Mapping[str, str]:
        return {"scripted": "1"}

    def settings(self) -> Mapping[str, Any]:
        return {"script": self._script} if self._script else {}

    def check(self) -> Sequence[str]:
        return ()

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        built_in = self._built_ins.get(name)
        if built_in is not None:
            inquiry = None if built_in.inquiry is None else built_in.inquiry(arguments)
            return Resolved(name, "harness", built_in.policy, built_in.on_doubt, inquiry=inquiry)
        tool = tools.get(name)
        if tool is None:
            return Resolved(name, "worker", "never")
        return Resolved(name, "worker", tool.policy, tool.on_doubt, tool.key_ttl_s)

    async def advance(self, attempt: Attempt) -> TurnResult:
        results: list[object] = []
        for at, step in enumerate(_script(attempt)):
            match step:
                case ToolStep():
                    results.append(_plain(await attempt.calls.run_tool(step.name, step.arguments)))
                case ModelStep():
                    results.append(await self._ask(attempt, at, step))
                    results.extend(await self._asked(attempt, at, step))
                case BatchStep():
                    lanes = [
                        attempt.calls.run_tool(tool.name, tool.arguments, lane=f"step{at}.{place}")
                        for place, tool in enumerate(step.tools)
                    ]
                    results.append([_plain(result) for result in await asyncio.gather(*lanes)])
        return TurnResult("done", results)

    async def _ask(self, attempt: Attempt, at: int, step: ModelStep) -> str:
        messages = [{"role": "user", "content": step.text}]
        match = digest(str(at).encode(), step.text.encode())
        calls = attempt.calls
        for steer in attempt.steers.waiting():
            attempt.steers.carried(steer.input)
        opening = await calls.open_model(ModelAsk(MAIN, "scripted", match, {"step": at}, messages))
        match opening:
            case Served(call, answer):
                text = str(answer["text"])
            case Send(call):
                text = await self._answer(attempt, call, step)
                await attempt.gate.cross(Point.AFTER_EFFECT, call=call, policy="model")
                asks = [
                    ToolAsk(_harness_id(attempt, at, place), tool.name, tool.arguments)
                    for place, tool in enumerate(step.tools)
                ]
                await calls.settle_model(call, {"text": text}, asks, step.usage)
            case Parked(why):
                raise TurnStopped(why)
            case _:
                raise BadInput(detail="the scripted harness makes one model call at a time")
        calls.delivered([call])
        await attempt.gate.cross(Point.DELIVERED, call=call, policy="model")
        return text

    async def _answer(self, attempt: Attempt, call: int, step: ModelStep) -> str:
        pieces: list[str] = []
        async with aclosing(self._model(step.text)) as answer:
            async for piece in answer:
                attempt.calls.show(call, "text", piece)
                pieces.append(piece)
                if len(pieces) == 1:
                    await attempt.gate.cross(Point.IN_EFFECT, call=call, policy="model")
        return "".join(pieces)

    async def _asked(self, attempt: Attempt, at: int, step: ModelStep) -> Sequence[object]:
        runs = [
            self._run(attempt, _harness_id(attempt, at, place), tool) for place, tool in enumerate(step.tools)
        ]
        return [_plain(result) for result in await asyncio.gather(*runs)]

    async def _run(self, attempt: Attempt, harness_id: str, step: ToolStep) -> ToolResult:
        calls = attempt.calls
        built_in = self._built_ins.get(step.name)
        if built_in is None:
            return await calls.run_tool(step.name, step.arguments, harness_id=harness_id)
        verdict = await calls.start_tool(harness_id, step.name, step.arguments)
        if isinstance(verdict, Deny):
            return ToolResult("ok" if verdict.settled else "error", verdict.text)
        cross = attempt.gate.cross
        await cross(Point.IN_EFFECT, call=verdict.call, policy=built_in.policy)
        result = ToolResult("ok", await built_in.function(verdict.arguments))
        await cross(Point.AFTER_EFFECT, call=verdict.call, policy=built_in.policy)
        await calls.settle_tool(harness_id, result)
        return result


async def _words(text: str) -> AsyncGenerator[str, None]:
    words = text.split(" ")
    for place, word in enumerate(words, 1):
        yield word if place == len(words) else f"{word} "


def _harness_id(attempt: Attempt, at: int, place: int) -> str:
    return f"ask-{attempt.turn.turn}-{at}-{place}"


def _plain(result: ToolResult) -> object:
    return result.value if result.status == "ok" else {"status": result.status, "value": result.value}


def _script(attempt: Attempt) -> Script:
    source: object = attempt.settings.get("script") or attempt.prompt
    try:
        return (
            msgspec.json.decode(source, type=Script)
            if isinstance(source, str)
            else msgspec.convert(source, Script)
        )
    except msgspec.MsgspecError as error:
        raise BadInput(detail=f"The prompt is no script of the scripted harness: {error}") from None
