"""How an agent of eve's speaks through our module (`outlast.adapter.Dialogue`)."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.adapter import MAIN, Deny, HookAsk, Let, ToolResult
from outlast.adapters.eve.conversation import Conversation
from outlast.adapters.shapes import Json, as_object, as_objects

MARK: Final = "[outlast]"
"""Ends the description of a tool that asks us; no request that goes upstream holds it."""


class EveDialogue:
    """The dialogue of one attempt.

    Args:
        known: how calls have ended, as far as the log knows, by call id.
        conversation: what was said in the session before.
    """

    dialect: str = "openai-chat"
    greets: bool = False
    retries: bool = True

    def __init__(self, known: Mapping[str, ToolResult], conversation: Conversation) -> None:
        self._known = known
        self._conversation = conversation
        self._unasked: list[str] = []
        self.over = False
        """The turn has ended: nothing more goes upstream."""
        self.unfit = ""
        """Why no turn of this agent can go on, now or in another attempt, as it is built."""

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        return MAIN

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        tools = as_objects(request.get("tools"))
        self._unasked = [_name(tool) for tool in tools if not _description(tool).endswith(MARK)]
        more: Json = {"tools": [_unmarked(tool) for tool in tools]} if tools else {}
        if self._conversation.earlier:
            more["messages"] = self._conversation.insert(as_objects(request.get("messages")))
        return {**request, **more}

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        if self.over:
            return "the turn is over"
        if self._unasked:
            names = ", ".join(self._unasked)
            hint = "Wrap them in `durable`, or disable them"
            self.unfit = f"the agent offers tools that would run unasked: {names}. {hint}"
            return self.unfit
        self._conversation.heard(request)
        return None

    async def recorded(self, *, tool: bool = False) -> None:
        """Return once what was said so far is mirrored."""
        await self._conversation.record()

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        return ""

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        call, name = str(payload.get("call", "")), str(payload.get("name", ""))
        match event:
            case "before":
                return HookAsk("before", call, name, as_object(payload.get("input")))
            case "after":
                failed = payload.get("isError") is not False
                result = ToolResult("error" if failed else "ok", payload.get("output"))
                return HookAsk("after", call, name, result=result)
            case _:
                return HookAsk("other")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        if ask.event == "after":
            return {"settled": ask.harness_id}
        if ask.event != "before":
            return {}
        match verdict:
            case Let():
                return {"run": ask.harness_id}
            case Deny(text, settled=True):
                known = self._known.get(ask.harness_id)
                if known is None or known.status != "ok":
                    return {"run": "", "reason": text}
                return {"run": "", "result": {"value": known.value, "isError": False}}
            case Deny(text):
                return {"run": "", "reason": text}
            case None:
                return {"run": "", "reason": "outlast gave no decision."}


def _name(tool: Json) -> str:
    return str(as_object(tool.get("function")).get("name"))


def _description(tool: Json) -> str:
    return str(as_object(tool.get("function")).get("description", ""))


def _unmarked(tool: Json) -> Json:
    function = as_object(tool.get("function"))
    told = _description(tool).removesuffix(MARK).rstrip()
    return {**tool, "function": {**function, "description": told}}
