"""How Pi speaks: its lanes, and what its extension asks and is told (`outlast.adapter.Dialogue`)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.adapter import MAIN, SIDE, Deny, HookAsk, Let, ToolResult
from outlast.adapters.pi.results import as_told, result_of
from outlast.adapters.shapes import as_object, as_objects
from outlast.tool import Tool

COMPACTION: Final = f"{SIDE}compaction"
PLACEHOLDER: Final = "__pi_deferred_placeholder__"
"""No tool: what Pi declares beside its tools, to some models, so that the provider's cache holds if these change."""
_COMPACTING: Final = "You are a context summarization assistant."


@dataclass(frozen=True, slots=True)
class Welcome:
    """What the extension is told when it says hello."""

    provider: str
    """Pi's name of whom it asks."""
    tools: Sequence[Tool] = ()
    steers: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """What is to be said again behind the n-th answer from the log: it was carried by the request after that."""
    shown: str = ""
    """The directory that the model is told it works in, if Pi works beside it, without any tool of its own."""


class PiDialogue:
    """The dialogue of one attempt.

    Args:
        dialect: of the model that Pi asks.
        welcome: for the extension's hello.
        known: how calls of Pi's own tools ended, as far as the log knows, by call id.
        walks: main requests that are in the log and that Pi is going to make again.
        record: mirrors what Pi has written.
    """

    greets: bool = True
    retries: bool = True
    """It has no retries of its own; but what it says of a failure is words, and the gateway knows which may pass."""

    def __init__(
        self,
        dialect: str,
        welcome: Welcome,
        *,
        known: Mapping[str, ToolResult],
        walks: int,
        record: Callable[[], Awaitable[None]],
    ) -> None:
        self.dialect = dialect
        self._record = record
        self._welcome = welcome
        self._known = known
        self._tools = frozenset(tool.name for tool in welcome.tools)
        self._walks = walks
        self.config: Mapping[str, Any] = {}
        """Where the provider is to be found, and its models where Pi does not know them."""
        self.heard = asyncio.Event()
        """It has asked for something: it goes on with the turn."""
        self.at_frontier = asyncio.Event()
        """It has asked for everything that the log holds of the turn: what it is told now is new."""
        self.over = False
        """The turn has ended in the harness: nothing more goes upstream."""

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        self.heard.set()
        if _compacts(request):
            return COMPACTION
        self._walks -= 1
        if self._walks <= 0:
            self.at_frontier.set()
        return MAIN

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return request

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        if self.over:
            return "the turn is over"
        if lane != MAIN or not self._tools:
            return None
        offered = {
            str(tool.get("name") or as_object(tool.get("function")).get("name"))
            for tool in as_objects(request.get("tools"))
        }
        missing = sorted(self._tools - offered)
        if missing:
            return f"the tools {', '.join(missing)} are missing from the request"
        own = sorted(offered - self._tools - {PLACEHOLDER}) if self._welcome.shown else ()
        return f"Pi offers tools of its own: {', '.join(own)}" if own else None

    async def recorded(self, *, tool: bool = False) -> None:
        await self._record()

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        return ""  # the extension says it

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        call, name = str(payload.get("call", "")), str(payload.get("name", ""))
        match event:
            case "hello":
                return HookAsk("hello")
            case "before":
                self.heard.set()
                return HookAsk("before", call, name, as_object(payload.get("input")))
            case "after":
                failed = payload.get("isError") is not False
                return HookAsk("after", call, name, result=result_of(payload.get("content"), is_error=failed))
            case _:
                return HookAsk("other")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        match ask.event:
            case "hello":
                return self.hello()
            case "before":
                return self._before(ask.harness_id, verdict)
            case "after":
                return {"settled": ask.harness_id}
            case "other":
                return {}

    def hello(self) -> Mapping[str, Any]:
        """What the extension is told when it says hello."""
        welcome = self._welcome
        return {
            "outlast": "welcome",
            "barred": self.dialect == "openai-responses",
            "provider": {"name": welcome.provider, "config": self.config},
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "schema": tool.schema,
                    **({"snippet": tool.description.partition(".")[0]} if tool.stands_in else {}),
                }
                for tool in welcome.tools
            ],
            "cwd": welcome.shown,
            "steers": {str(answer): texts for answer, texts in welcome.steers.items()},
        }

    def _before(self, call: str, verdict: Let | Deny | None) -> Mapping[str, Any]:
        match verdict:
            case Let():
                return {"run": call}
            case Deny(text, settled=True):
                known = self._known.get(call)
                told = {} if known is None else {"result": as_told(known)}
                return {"run": "", "reason": text, **told}
            case Deny(text):
                return {"run": "", "reason": text}
            case None:
                return {"run": "", "reason": "outlast gave no decision."}


def _compacts(request: Mapping[str, Any]) -> bool:
    """Whether Pi asks for a summary of the conversation instead of going on with it."""
    said = request.get("system") or request.get("instructions")
    texts = [said] if isinstance(said, str) else [block.get("text") for block in as_objects(said)]
    for message in as_objects(request.get("messages") or request.get("input"))[:1]:
        if message.get("role") in {"system", "developer"}:
            content = message.get("content")
            texts += (
                [content]
                if isinstance(content, str)
                else [block.get("text") for block in as_objects(content)]
            )
    return any(str(text).startswith(_COMPACTING) for text in texts)
