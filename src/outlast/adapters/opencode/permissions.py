"""The third gate: OpenCode asks before each tool of the conversation, and the log answers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapter import Attempt
from outlast.adapters.opencode.client import Client
from outlast.adapters.shapes import Json, as_list, as_object, as_objects

NOT_STARTED: Final = "This call may not run: the log does not say that it has begun in this attempt."
WANTS_A_PERSON: Final = (
    "This call did not run: a rule in the user's settings wants a person asked first, and nobody is here to ask. Go on "
    "without it, and say what is left to do."
)
DENIED: Final = "This call did not run: a rule of the agent that made it forbids it."
NO_CALL: Final = "Nobody is here to ask, and this is no call of a tool. Go on without it."

_ASK: Final[Json] = {"permission": "*", "pattern": "*", "action": "ask"}
_NOBODY: Final = ("question", "plan_enter", "plan_exit")
"""What only a person can answer."""
_OURS: Final = ("doom_loop", "external_directory")
"""What OpenCode asks about unless told otherwise, and what the worker's own rules are for."""
_DEFAULT_AGENT: Final = "build"


def rules_of(agents: Sequence[Mapping[str, Any]], agent: str) -> list[Json]:
    """The rules of an agent, as OpenCode has put them together from its own, the user's and the project's."""
    chosen = (one for one in agents if one.get("name") == (agent or _DEFAULT_AGENT))
    return [rule for one in chosen for rule in as_objects(one.get("permission"))]


def session_rules(rules: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Rules for a new session, which stand above those of its agent.

    Everything is asked about; what the agent's own rules deny stays denied; what would wait for a person is taken away.
    """
    own = [
        {**rule, "action": "ask" if rule.get("action") == "allow" else rule.get("action")} for rule in rules
    ]
    return [dict(_ASK), *own, *typed_rules()]


def typed_rules() -> list[Json]:
    """Rules for a session at a terminal: else OpenCode asks who sits there, as its agent's rules have it.

    To ask about everything would take the keys from what is typed meanwhile, again and again.
    """
    return [{"permission": name, "pattern": "*", "action": "deny"} for name in _NOBODY]


def asks_about_all(rules: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a session has rules that were made by `session_rules`: one that was adopted has its user's."""
    return any(rule == _ASK for rule in rules)


def wants_person(rules: Sequence[Mapping[str, Any]], permission: str, patterns: Sequence[str]) -> bool:
    """Whether rules, of which the last that fits counts, want a person asked about this."""
    return any(_action(rules, permission, pattern) == "ask" for pattern in patterns)


def denies(rules: Sequence[Mapping[str, Any]], permission: str, patterns: Sequence[str]) -> bool:
    """Whether rules, of which the last that fits counts, forbid this."""
    return any(_action(rules, permission, pattern) == "deny" for pattern in patterns)


def _action(rules: Sequence[Mapping[str, Any]], permission: str, pattern: str) -> str:
    for rule in reversed(rules):
        if matches(str(rule.get("permission", "")), permission) and matches(
            str(rule.get("pattern", "")), pattern
        ):
            return str(rule.get("action", ""))
    return ""


class Permissions:
    """Answers the questions of one process.

    Args:
        person: somebody sits before it, who is asked what rules want a person asked about.
    """

    def __init__(self, attempt: Attempt, client: Client, *, person: bool = False) -> None:
        self._attempt = attempt
        self._client = client
        self._person = person
        self.rules: Sequence[Mapping[str, Any]] = ()
        """The agent's own."""

    async def answer(self, asked: Json) -> None:
        """Answer one question, or leave it to whom it is for."""
        refusal = self._refusal(asked)
        if not (self._person and refusal in {NO_CALL, WANTS_A_PERSON}):
            await self._client.permit(str(asked.get("id", "")), refusal)

    def _refusal(self, asked: Json) -> str | None:
        call = str(as_object(asked.get("tool")).get("callID", ""))
        if not call:
            return NO_CALL
        intent = self._attempt.calls.intent_of(call)
        if intent is None:
            return NOT_STARTED
        tool = self._attempt.tools.get(intent.name)
        if tool is not None and tool.stands_in:
            return NOT_STARTED  # what stands in asks nobody: this is OpenCode's own of that name
        state = self._attempt.turn.calls[intent.call]
        if intent.runs_in != "worker" and not (state.open and state.started == self._attempt.fence):
            return NOT_STARTED
        permission, patterns = (
            str(asked.get("permission", "")),
            [str(one) for one in as_list(asked.get("patterns"))],
        )
        if not self._person and permission in _OURS:
            return None
        if denies(self.rules, permission, patterns):
            return DENIED
        return WANTS_A_PERSON if wants_person(self.rules, permission, patterns) else None


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of OpenCode's rules fits: `*` for anything, `?` for one character."""
    expression = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None
