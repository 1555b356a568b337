"""How OpenCode speaks: its lanes, the date in its prompt, its hooks (`outlast.adapter.Dialogue`)."""

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, cast

from outlast.adapter import MAIN, SIDE, Deny, HookAsk, Let, ToolResult
from outlast.adapters.opencode.offered import KEPT
from outlast.adapters.opencode.policies import application_tool
from outlast.adapters.opencode.results import result_of
from outlast.adapters.shapes import Json, as_list, as_object, as_objects
from outlast.codec import canonical
from outlast.errors import TurnStopped
from outlast.tool import Tool

COMPACTION: Final = f"{SIDE}compaction"
FOREIGN: Final = f"{SIDE}foreign"
UNASKED: Final = "outlast: a call that no hook has asked for"

_SESSION_HEADER: Final = "x-session-id"
_PARENT_HEADER: Final = "x-parent-session-id"
_DATE: Final = re.compile(r"^(  Today's date: )\w{3} \w{3} \d{2} \d{4}$", re.MULTILINE)
_SAID: Final = ("system", "instructions", "input", "messages")
"""Where a request of some dialect holds what is said from above."""
_TALK: Final = ("input", "messages")
_ABOVE: Final = ("system", "developer")
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


async def _stopped() -> NoReturn:
    raise TurnStopped("OpenCode is being stopped")


@dataclass(frozen=True, slots=True)
class Bare:
    """An OpenCode without tools of its own, but for `offered.KEPT` (`outlast.offering`)."""

    shown: str
    """The directory that the model is told it works in."""
    tools: Sequence[Tool]
    """What stands in for them."""


class OpenCodeDialogue:
    """The dialogue of one attempt.

    Args:
        tools: names under which the application's tools must be in every request of the conversation.
        began_s: Unix time at which the turn was opened: its date is the one that the prompt has throughout.
        dialect: how its provider is spoken to.
        bare: it has no tools of its own.
    """

    greets: bool = True
    retries: bool = True

    def __init__(
        self,
        tools: Collection[str],
        began_s: float,
        dialect: str = "anthropic",
        bare: Bare | None = None,
    ) -> None:
        self.dialect = dialect
        self._bare = bare
        self._tools = frozenset(tools)
        self._date = date_line(began_s)
        self._asked: dict[tuple[str, bytes], deque[str]] = defaultdict(deque)
        """Calls of the application's tools that a hook has asked for and that have not come over MCP yet."""
        self.session = ""
        """The conversation's name in OpenCode, once it has one."""
        self.record: Callable[[], Awaitable[None]] | None = None
        """Brings the mirror up to what OpenCode has written, once there is somebody to ask."""
        self.news: Callable[[], None] | None = None
        """Has it done soon, where a model request need not wait for that: asking OpenCode takes it some 15 ms."""
        self.heard = asyncio.Event()
        """It has asked for something: it goes on with the turn."""
        self.over = False
        """The turn has ended in the harness: nothing more goes upstream."""

    def hang_up(self) -> None:
        """OpenCode is being stopped, and can be asked for nothing any more: what it still asks for is refused."""
        self.record, self.news = _stopped, None

    async def recorded(self, *, tool: bool = False) -> None:
        if self.news is not None and not tool:
            self.news()  # its own hooks tell how its tools have ended, and none begins before the mirror has caught up
        elif self.record is not None:
            await self.record()

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        session = headers.get(_SESSION_HEADER, "")
        if not session or not self.session:
            return FOREIGN
        self.heard.set()
        if session != self.session:
            return f"agent:{session}" if headers.get(_PARENT_HEADER) else FOREIGN
        return MAIN if as_list(request.get("tools")) else COMPACTION

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request with the date of the turn's beginning: midnight is no reason to ask a model again."""
        dated = {name: self._dated(name, request[name]) for name in _SAID if name in request}
        same = all(dated[name] is request[name] for name in dated)
        return request if same else {**request, **dated}

    def _dated(self, name: str, value: Any) -> Any:
        """What is said to the model from above, with that date; itself if nothing differs."""
        if isinstance(value, str):
            dated = _DATE.sub(lambda found: found[1] + self._date, value)
            return value if dated == value else dated
        if isinstance(value, list):
            old = cast("list[Any]", value)
            new = [self._dated(name, item) for item in old]
            return old if all(one is other for one, other in zip(new, old, strict=True)) else new
        block = as_object(value)
        if name in _TALK and block.get("role") not in {None, *_ABOVE}:
            return value
        changed = {key: self._dated(name, block[key]) for key in ("text", "content") if key in block}
        return value if all(changed[key] is block[key] for key in changed) else {**block, **changed}

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        if lane == FOREIGN:
            return "another program than the turn's own OpenCode asks with its token"
        if self.over:
            return "the turn is over"
        if lane != MAIN:
            return None
        offered = {_name_of(tool) for tool in as_objects(request.get("tools"))}
        missing = sorted(self._tools - offered)
        if missing:
            return f"the tools {', '.join(missing)} are missing from the request"
        if self._bare is None:
            return None
        own = sorted(offered - self._tools - KEPT - {tool.name for tool in self._bare.tools})
        return f"OpenCode offers tools of its own: {', '.join(own)}" if own else None

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The first call of this name and these arguments that a hook has asked for: OpenCode tells MCP no more."""
        waiting = self._asked.get((name, canonical(dict(arguments))))
        return waiting.popleft() if waiting else UNASKED

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        harness_id = str(payload.get("callID", ""))
        name = str(payload.get("tool", ""))
        arguments = as_object(payload.get("args"))
        match event:
            case "hello":
                return HookAsk("hello")
            case "before":
                self.heard.set()
                return HookAsk("before", harness_id, name, arguments)
            case "after":
                return HookAsk(
                    "after", harness_id, name, result=ToolResult("ok", result_of(as_object(payload)))
                )
            case _:
                return HookAsk("other")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        if ask.event == "hello":
            return self._hello()
        match verdict:
            case Let():
                ours = application_tool(ask.name)
                if ours is not None:
                    self._asked[ours, canonical(dict(ask.arguments))].append(ask.harness_id)
                return {"allow": True, "call": ask.harness_id}
            case Deny(text):
                return {"allow": False, "reason": text}
            case None:
                return {"allow": False, "reason": "outlast gave no decision."}

    def _hello(self) -> Mapping[str, Any]:
        """What the plugin is told when it says hello."""
        bare = self._bare
        if bare is None:
            return {}
        tools = [
            {"name": one.name, "description": one.description, "schema": one.schema} for one in bare.tools
        ]
        return {"cwd": bare.shown, "tools": tools}


def date_line(at_s: float) -> str:
    """A day as OpenCode writes it, `Mon Nov 30 2026` (ECMA-262, `Date.prototype.toDateString`), in UTC."""
    day = datetime.fromtimestamp(at_s, UTC)
    return f"{_WEEKDAYS[day.weekday()]} {_MONTHS[day.month - 1]} {day.day:02d} {day.year:04d}"


def _name_of(tool: Json) -> str:
    """The name of a tool in a request of any dialect."""
    return str(tool.get("name") or as_object(tool.get("function")).get("name", ""))
