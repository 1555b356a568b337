"""The third gate: OpenCode asks before each tool of the conversation, and the log answers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapter import Attempt
from outlast.adapters.opencode.client import Client
from outlast.adapters.shapes import Json, as_object, as_objects

NOT_STARTED: Final = "This call may not run: the log does not say that it has begun in this attempt."
NO_CALL: Final = "Nobody is here to ask, and this is no call of a tool. Go on without it."

_ASK: Final[Json] = {"permission": "*", "pattern": "*", "action": "ask"}
_NOBODY: Final = ("question", "plan_enter", "plan_exit")
"""What only a person can answer."""
_DEFAULT_AGENT: Final = "build"


def session_rules(agents: Sequence[Mapping[str, Any]], agent: str) -> list[Json]:
    """Rules for a new session, which stand above those of its agent.

    Everything is asked about; what the agent's own rules deny stays denied; what would wait for a person is taken away.
    """
    chosen = [one for one in agents if one.get("name") == (agent or _DEFAULT_AGENT)]
    own = [
        {**rule, "action": "ask" if rule.get("action") == "allow" else rule.get("action")}
        for one in chosen
        for rule in as_objects(one.get("permission"))
    ]
    nobody = [{"permission": name, "pattern": "*", "action": "deny"} for name in _NOBODY]
    return [dict(_ASK), *own, *nobody]


class Permissions:
    """Answers the questions of one process."""

    def __init__(self, attempt: Attempt, client: Client) -> None:
        self._attempt = attempt
        self._client = client

    async def answer(self, asked: Json) -> None:
        """Answer one question."""
        await self._client.permit(str(asked.get("id", "")), self._refusal(asked))

    def _refusal(self, asked: Json) -> str | None:
        call = str(as_object(asked.get("tool")).get("callID", ""))
        if not call:
            return NO_CALL
        intent = self._attempt.calls.intent_of(call)
        if intent is None:
            return NOT_STARTED
        state = self._attempt.turn.calls[intent.call]
        if intent.runs_in == "worker":
            return None
        return None if state.open and state.started == self._attempt.fence else NOT_STARTED


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of OpenCode's rules fits: `*` for anything, `?` for one character."""
    expression = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None
