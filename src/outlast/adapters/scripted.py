"""A harness that follows a list: for tests, benchmarks, and as the smallest example of an adapter.

It has no model and no process. Its turn is a list of steps, in the agent's settings or in the prompt; a taken-over
turn walks the list again and every finished call is read from the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from outlast.adapter import Attempt, ModelAsk, Parked, Resolved, Send, Served, ToolResult, TurnResult
from outlast.errors import BadInput, TurnStopped
from outlast.gate import Point
from outlast.ids import digest
from outlast.records import Usage
from outlast.recovery import Abilities
from outlast.tool import Tool


class ToolStep(msgspec.Struct, frozen=True, tag="tool", tag_field="do"):
    """Call a tool."""

    name: str
    arguments: dict[str, Any] = {}


class ModelStep(msgspec.Struct, frozen=True, tag="model", tag_field="do"):
    """Make a model call that says `text`, word by word."""

    text: str
    usage: Usage = Usage()


class BatchStep(msgspec.Struct, frozen=True, tag="batch", tag_field="do"):
    """Call several tools at once, each in a lane of its own."""

    tools: list[ToolStep]


Script = list[ToolStep | ModelStep | BatchStep]


class Scripted:
    """Carries a turn by a script. The prompt is the script as JSON, or the settings hold it under `script`.

    Args:
        model: answers a `model` step in place of the words of the step; its effect can be counted.
    """

    def __init__(
        self,
        *,
        script: Sequence[Mapping[str, Any]] = (),
        model: Callable[[str], Awaitable[str]] | None = None,
    ) -> None:
        self._script = list(script)
        self._model = model

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def abilities(self) -> Abilities:
        return Abilities("all", can_supply=True)

    def versions(self) -> Mapping[str, str]:
        return {"scripted": "1"}

    def settings(self) -> Mapping[str, Any]:
        return {"script": self._script} if self._script else {}

    def check(self) -> Sequence[str]:
        return ()

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
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
        opening = await calls.open_model(ModelAsk("main", "scripted", match, {"step": at}, messages))
        match opening:
            case Served(call, answer):
                text = str(answer["text"])
            case Send(call):
                text = await self._answer(attempt, call, step)
                await attempt.gate.cross(Point.AFTER_EFFECT, call=call, policy="model")
                await calls.settle_model(call, {"text": text}, (), step.usage)
            case Parked(why):
                raise TurnStopped(why)
            case _:
                raise BadInput(detail="the scripted harness makes one model call at a time")
        calls.delivered([call])
        await attempt.gate.cross(Point.DELIVERED, call=call, policy="model")
        return text

    async def _answer(self, attempt: Attempt, call: int, step: ModelStep) -> str:
        await attempt.gate.cross(Point.IN_EFFECT, call=call, policy="model")
        text = step.text if self._model is None else await self._model(step.text)
        for word in text.split(" "):
            attempt.calls.show(call, "text", word + " ")
        return text


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
