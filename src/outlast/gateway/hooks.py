"""The harness's hooks: what it asks before a tool of its own and tells after it.

Always answered, and never with yes by accident.
"""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec

from outlast.adapter import Deny, HookAsk, Let
from outlast.errors import AttemptLost, TurnStopped
from outlast.gateway.doors import NOT_OPEN, OpenDoor
from outlast.gateway.limits import Limits
from outlast.gateway.wire import JSON, LAST, BodyRefused, ClientGone, Http
from outlast.logs import logger

log = logger("outlast.gateway")


def generic_deny(why: str) -> Mapping[str, Any]:
    """A refusal as Claude Code, and what took over its hooks, understands it: the tool does not run, the turn ends.

    For hooks of nobody whom we know, and for those that could not be read.
    """
    return {
        "continue": False,
        "stopReason": why,
        "decision": "block",
        "reason": why,
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": why,
        },
    }


class Hooks:
    """Answers hook calls, always with status 200: a harness that gets another may run the tool."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def answer(self, http: Http, door: OpenDoor | None, event: str) -> None:
        """Answer one hook call."""
        try:
            # Anybody on this machine may knock: of a stranger hardly anything is read.
            known, limits = door is not None, self._limits
            limit, within_s = (
                (limits.request_bytes, limits.body_s) if known else (limits.stranger_bytes, limits.stranger_s)
            )
            body = await http.body(limit, within_s)
            decision = await self._decide(door, event, body)
        except BodyRefused as refusal:
            decision = generic_deny(NOT_OPEN if door is None else str(refusal))
        except ClientGone:
            return
        try:
            await http.whole_json(200, decision, LAST if door is None else JSON)
        except ClientGone:
            return

    async def _decide(self, door: OpenDoor | None, event: str, body: bytes) -> Mapping[str, Any]:
        if door is None:
            return generic_deny(NOT_OPEN)
        try:
            return await self._ask(door, event, body)
        except (AttemptLost, TurnStopped) as over:
            door.close(str(over))
            return generic_deny(f"The turn is over: {over}.")
        except Exception as error:
            if door.over:  # what it is asked about is gone with the attempt
                return generic_deny(f"The turn is over: {door.over}.")
            log.exception("a hook of %s could not be answered", door.attempt.session)
            return generic_deny(
                f"The hook could not be answered ({type(error).__name__}), so nothing may run."
            )

    async def _ask(self, door: OpenDoor, event: str, body: bytes) -> Mapping[str, Any]:
        payload = msgspec.json.decode(body, type=dict[str, Any])
        ask = door.dialogue.read_hook(event, payload)
        verdict: Let | Deny | None = Deny(
            "That this call may begin could not be written down in time. It did not run."
        )
        with anyio.move_on_after(self._limits.hook_s) as patience:
            verdict = await _verdict(door, ask)
        if patience.cancelled_caught and ask.event == "after":
            return generic_deny("What came of the call could not be written down in time.")
        answer = door.dialogue.hook_answer(ask, verdict)
        if door.over and not isinstance(verdict, Deny) and ask.event == "before":
            return generic_deny(door.over)
        return answer


async def _verdict(door: OpenDoor, ask: HookAsk) -> Let | Deny | None:
    match ask.event:
        case "hello":
            door.greeted.set()
            return None
        case "before":
            if door.over:
                return Deny(f"Nothing may run any more: {door.over}.")
            await door.recorded(tool=True)
            return await door.attempt.calls.start_tool(ask.harness_id, ask.name, ask.arguments, cwd=ask.cwd)
        case "after":
            if ask.result is not None:
                await door.attempt.calls.settle_tool(ask.harness_id, ask.result)
            return None
        case "other":
            return None
