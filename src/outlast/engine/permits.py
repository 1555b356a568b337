"""Before a tool call begins: whether the agent's rules let it, forbid it, or want a person asked.

Invariants:

* Where the worker's tools stand in the place of the harness's, none of these begins but those that it keeps.
* No tool call begins that a rule denies, or that a rule wants asked about and nobody has allowed: in any attempt, also
  when it is run again.
* Until it is allowed the call has not begun, and the log says so: its intent is *granted*, and not started.
* A person is asked once all else of the turn has come to rest: what waits for a word is decided together.
* A word is about one call, however often that is begun; where a person said so it is for the turn: then the same tool
  with the same arguments is not asked about again.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from outlast.calls import ToolResult
from outlast.codec import canonical, to_json
from outlast.engine.context import Context
from outlast.fold import CallState
from outlast.rules import Rule, judge

DENIED = "This call is not allowed{why}. It did not run."
NOT_HERE = (
    "There is no tool {name!r} here: files and commands are those of the workspace. This call did not run."
)


class Permits:
    """The rules of one attempt, and what waits for a person's word."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asking: dict[int, Rule] = {}

    def wants(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a rule has more to say about a call than that it may begin."""
        if not self._context.rules:
            return False
        # As the log will have them, and the tool will read them.
        logged = msgspec.json.decode(to_json(dict(arguments), what=f"the arguments of {name}"))
        return self._judge(name, logged).word != "allow"

    def _judge(self, name: str, *said: Mapping[str, Any]) -> Rule:
        """The rule that decides about a call, as it was written and as its tool is given it."""
        tool = self._context.tools.get(name)
        given = () if tool is None else [tool.given(arguments) for arguments in said]
        return judge(self._context.rules, name, *said, *given)

    async def refusal(self, state: CallState, seen: Mapping[str, Any] | None = None) -> ToolResult | None:
        """How the call ends without having begun; None if it may begin.

        Args:
            seen: what the harness has made of the arguments that the model wrote.

        Raises:
            TurnStopped: a person is asked; the turn is parked.
        """
        intent, keeps = state.intent, self._context.keeps
        if keeps is not None and intent.runs_in == "harness" and intent.name not in keeps:
            return ToolResult("error", NOT_HERE.format(name=intent.name))
        if not self._context.rules:
            return None
        rule = await self._rule(state, seen)
        if rule.word == "ask" and not await self._is_allowed(state):
            await self._ask(state, rule)
        return _denied(rule)

    async def denial(self, state: CallState) -> ToolResult | None:
        """How the call ends if a rule denies it; nobody is asked."""
        return _denied(await self._rule(state)) if self._context.rules else None

    async def _rule(self, state: CallState, seen: Mapping[str, Any] | None = None) -> Rule:
        said = await self._context.value(state.intent.arguments)
        return self._judge(state.intent.name, said, *([] if seen is None else [seen]))

    async def _is_allowed(self, state: CallState) -> bool:
        turn = self._context.turn
        if state.intent.call in (*turn.allowed, *turn.allowed_for_turn):
            return True
        wanted = canonical(await self._context.value(state.intent.arguments))
        for other in (*turn.allowed_before, *(call.intent for call in turn.allowed_still())):
            same = other.name == state.intent.name
            if same and canonical(await self._context.value(other.arguments)) == wanted:
                return True
        return False

    async def _ask(self, state: CallState, rule: Rule) -> None:
        context = self._context
        self._asking[state.intent.call] = rule
        try:
            await asyncio.sleep(0)  # others of its batch come at the same moment
            await context.rest()
        except asyncio.CancelledError:  # whoever wanted to begin it has given up, and it does not begin
            self._asking.pop(state.intent.call, None)
            raise
        whys = {str(call): asked.why for call, asked in self._asking.items() if asked.why}
        context.park("decision", {"asks": sorted(self._asking), "why": whys})


def _denied(rule: Rule) -> ToolResult | None:
    if rule.word != "deny":
        return None
    return ToolResult("error", DENIED.format(why=f": {rule.why}" if rule.why else ""))
