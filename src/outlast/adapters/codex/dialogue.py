"""How Codex speaks: its lanes, what a resume adds to its requests, its hooks (`outlast.adapter.Dialogue`)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from outlast.adapter import MAIN, SIDE, Deny, HookAsk, Let
from outlast.adapters.codex.policies import PATCH, SHELL
from outlast.adapters.codex.rollout import is_answer, text_of
from outlast.adapters.shapes import Json, as_list, as_object, as_objects

COMPACTION: Final = f"{SIDE}compaction"
FOREIGN: Final = f"{SIDE}foreign"
NO_DECISION: Final = "outlast gave no decision."

_THREAD_HEADER: Final = "thread-id"
_ABOUT_HEADER: Final = "x-codex-turn-metadata"
_COMPACTING: Final = "compact"
_PLACE: Final = "<environment_context>"
_SHELL_HOOK: Final = "Bash"


class CodexDialogue:
    """The dialogue of one attempt.

    Args:
        thread: the session's name in Codex. A `codex` that the model's shell starts is no word of the turn's.
        tools: names under which the application's tools must be in every request of the main conversation.
        record: mirrors what stands in the rollout.
    """

    dialect: str = "openai-responses"
    greets: bool = True
    retries: bool = False

    def __init__(self, thread: str, tools: Collection[str], record: Callable[[], Awaitable[None]]) -> None:
        self._thread = thread
        self._tools = frozenset(tools)
        self._record = record
        self.heard = asyncio.Event()
        """It has asked for something: it goes on with the turn."""
        self.over = False
        """The turn has ended in the harness: nothing more goes upstream."""

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        if headers.get(_THREAD_HEADER) != self._thread:
            return FOREIGN
        self.heard.set()
        return COMPACTION if _COMPACTING in _kind(headers) else MAIN

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        items = as_list(request.get("input"))
        kept = [item for at, item in enumerate(items) if not _is_by_resume(items, at)]
        return request if len(kept) == len(items) else {**request, "input": kept}

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        if lane == FOREIGN:
            return "another program than the turn's own Codex asks with its token"
        if self.over:
            return "the turn is over"
        if lane != MAIN or not self._tools:
            return None
        missing = sorted(self._tools - _offered(request))
        return f"the tools {', '.join(missing)} are missing from the request" if missing else None

    async def recorded(self, *, tool: bool = False) -> None:
        await self._record()

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        return ""

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        if event == "hello":
            return HookAsk("hello")
        if event != "before":
            return HookAsk("other")
        name, arguments = _as_asked(str(payload.get("tool_name", "")), as_object(payload.get("tool_input")))
        return HookAsk("before", str(payload.get("tool_use_id", "")), name, arguments)

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        """As `hook.sh` reads it: a yes is exactly this object, a no gives its reason behind everything else."""
        if ask.event != "before" or isinstance(verdict, Let):
            return {"outlast": "let"}
        text = verdict.text if isinstance(verdict, Deny) else ""
        # Of a hook that gives no reason Codex runs the tool.
        text = text if text.strip() else NO_DECISION
        return {"outlast": "deny", "reason": text.replace('"', "'").replace("\\", "/").replace("\n", " ")}


def _as_asked(name: str, arguments: Json) -> tuple[str, Mapping[str, Any]]:
    """A tool and its arguments as the model named them: hooks are told of some in other words."""
    command = arguments.get("command")
    if name == _SHELL_HOOK:
        return SHELL, {"cmd": command}
    if name == PATCH:
        return PATCH, {"input": command}
    return name, arguments


def _kind(headers: Mapping[str, str]) -> str:
    try:
        about = as_object(msgspec.json.decode(headers.get(_ABOUT_HEADER, "{}")))
    except msgspec.DecodeError:
        return ""
    return str(about.get("request_kind", ""))


def _is_by_resume(items: list[Any], at: int) -> bool:
    """Whether an item tells where Codex works in the middle of a turn: only a start does, of which a turn has one."""
    item = as_object(items[at])
    if item.get("role") != "user" or not text_of(item).lstrip().startswith(_PLACE):
        return False
    before = as_object(items[at - 1]) if at else {}
    after = as_object(items[at + 1]) if at + 1 < len(items) else {}
    begins = after.get("role") == "user"
    return bool(before) and before.get("role") != "developer" and not begins


def _offered(request: Mapping[str, Any]) -> set[str]:
    listed = [
        request,
        *(item for item in as_objects(request.get("input")) if not is_answer(item) or "tools" in item),
    ]
    return {str(tool.get("name")) for holder in listed for tool in as_objects(holder.get("tools"))}
