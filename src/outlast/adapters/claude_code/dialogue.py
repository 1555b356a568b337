"""How Claude Code speaks: its lanes, what a resume adds to its requests, its hooks (`outlast.adapter.Dialogue`)."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from outlast.adapter import MAIN, SIDE, Deny, HookAsk, Let, ToolResult
from outlast.adapters.claude_code.stream import OUR_ANSWER
from outlast.adapters.shapes import Json, as_list, as_object, as_objects

SENTINEL: Final = "[[outlast: resumed, nothing was said]]"
"""The resume prompt, and the model's last word in a turn that was cut short; it never reaches the provider."""
COMPACTION: Final = f"{SIDE}compaction"
FOREIGN: Final = f"{SIDE}foreign"

_AGENT_HEADER: Final = "x-claude-code-agent-id"
_SESSION_HEADER: Final = "x-claude-code-session-id"
_COMPACTING: Final = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."


class ClaudeCodeDialogue:
    """The dialogue of one attempt.

    Args:
        session: the session's UUID in Claude Code. A `claude` that the model's shell starts would inherit the token.
        tools: names under which the application's tools must be in every request of the main conversation.
        bare: it has no tools of its own (`outlast.offering`).
    """

    dialect: str = "anthropic"
    greets: bool = True
    retries: bool = False

    def __init__(self, session: str, tools: Collection[str], *, bare: bool = False) -> None:
        self._session = session
        self._tools = frozenset(tools)
        self._bare = bare
        self.hooked: dict[str, Mapping[str, Any]] = {}
        """The arguments that the before-hook saw, by call id: Claude Code normalises what the model asked for."""
        self.heard = asyncio.Event()
        """It has asked for something: it goes on with the turn."""
        self.over = False
        """The turn has ended in the harness: nothing more goes upstream."""

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        self.heard.set()
        if (
            headers.get(_SESSION_HEADER) != self._session
        ):  # what a tool asks with the token is no word of the turn's
            return FOREIGN
        agent = headers.get(_AGENT_HEADER)
        if agent:
            return f"agent:{agent}"
        return COMPACTION if _compacts(request) else MAIN

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        messages = as_list(request.get("messages"))
        kept: list[Any] = []
        for message in messages:
            stripped, mark = _without_sentinel(message)
            if stripped is not None:
                kept.append(stripped)
            if mark is not None and kept:
                kept[-1] = _marked(kept[-1], mark)
        if len(kept) == len(messages) and all(new is old for new, old in zip(kept, messages, strict=True)):
            return request
        return {**request, "messages": kept}

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        if lane == FOREIGN:
            return "another program than the turn's own Claude Code asks with its token"
        if self.over:
            return "the turn is over"
        if lane != MAIN or not self._tools:
            return None
        offered = {str(tool.get("name")) for tool in as_objects(request.get("tools"))}
        missing = sorted(self._tools - offered)
        if missing:
            return f"the tools {', '.join(missing)} are missing from the request"
        own = sorted(offered - self._tools) if self._bare else ()
        return f"Claude Code offers tools of its own: {', '.join(own)}" if own else None

    async def recorded(self, *, tool: bool = False) -> None:
        """It writes its transcript after the request that shows it; what is missing is put back from the log."""

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        """It always says which call."""
        return ""

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        harness_id = str(payload.get("tool_use_id", ""))
        name = str(payload.get("tool_name", ""))
        arguments = as_object(payload.get("tool_input"))
        match event:
            case "hello":
                return HookAsk("hello")
            case "before":
                self.heard.set()
                self.hooked[harness_id] = arguments
                return HookAsk("before", harness_id, name, arguments, cwd=str(payload.get("cwd", "")))
            case "after":
                result = ToolResult("ok", payload.get("tool_response"))
                return HookAsk("after", harness_id, name, arguments, result)
            case "failed":
                return HookAsk(
                    "after", harness_id, name, arguments, ToolResult("error", str(payload.get("error", "")))
                )
            case _:
                return HookAsk("other")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        if ask.event != "before":
            return {"continue": True}
        decision: dict[str, Any] = {"hookEventName": "PreToolUse"}
        match verdict:
            case Let():
                decision["permissionDecision"] = "allow"
            case Deny(text):
                decision |= {"permissionDecision": "deny", "permissionDecisionReason": text}
            case None:
                decision |= {
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "outlast gave no decision.",
                }
        return {"hookSpecificOutput": decision, OUR_ANSWER: ask.harness_id}


def _without_sentinel(message: Any) -> tuple[Any, Any]:
    """The message without blocks that are the sentinel, None when nothing is left of it; and their cache mark."""
    content = as_object(message).get("content")
    if isinstance(content, str):
        return (None, None) if content.strip() == SENTINEL else (message, None)
    blocks = as_list(content)
    kept = [block for block in blocks if not _is_sentinel(block)]
    if len(kept) == len(blocks):
        return message, None
    mark = next((block.get("cache_control") for block in as_objects(blocks) if _is_sentinel(block)), None)
    return ({**message, "content": kept} if kept else None), mark


def _marked(message: Json, mark: Any) -> Json:
    """The message with the provider's cache mark on its last block, where it stood behind a sentinel."""
    content = message.get("content")
    blocks = as_objects([{"type": "text", "text": content}] if isinstance(content, str) else content)
    if not blocks:
        return message
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": mark}]}


def _is_sentinel(block: object) -> bool:
    found = as_object(block)
    return found.get("type") == "text" and str(found.get("text", "")).strip() == SENTINEL


def _compacts(request: Mapping[str, Any]) -> bool:
    """Whether the harness asks for a summary of the conversation instead of going on with it."""
    messages = as_objects(request.get("messages"))
    content = messages[-1].get("content") if messages else None
    if not isinstance(content, str):
        texts = [block.get("text") for block in as_objects(content) if block.get("type") == "text"]
        content = texts[-1] if texts else ""
    return str(content).lstrip().startswith(_COMPACTING)
