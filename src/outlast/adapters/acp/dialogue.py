"""How an agent whose requests come through the gateway speaks (`outlast.adapter.Dialogue`)."""

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from outlast.adapter import MAIN, SIDE, Attempt, Deny, HookAsk, Let
from outlast.adapters.acp.resuming import ASKED_FOR
from outlast.adapters.acp.talk import results_of, tool_names, user_texts, without_sentinel
from outlast.fold import CallState
from outlast.ids import digest

BESIDE: Final = f"{SIDE}beside"
"""Requests that offer no tools: titles, summaries."""
UNASKED: Final = "outlast: a call that no model has asked for"


class Driven(Protocol):
    """What the dialogue must know of its agent."""

    @property
    def served(self) -> Collection[str]:
        """The tools that it was told of."""
        ...

    async def record(self) -> None:
        """Bring the mirror up to what the agent has written."""
        ...


class AcpDialogue:
    """The dialogue of one attempt.

    Args:
        dialect: what the agent speaks to its model.
        agent: whose dialogue it is.
        sub_agents: see `Acp`.
    """

    greets: bool = False
    retries: bool = True

    def __init__(self, dialect: str, attempt: Attempt, agent: Driven, *, sub_agents: bool = True) -> None:
        self.dialect = dialect
        self._sub_agents = sub_agents
        self._attempt = attempt
        self._agent = agent
        self._taken: set[str] = set()
        self.heard = asyncio.Event()
        """It has asked for something: it goes on with the turn."""

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        if not tool_names(request):
            return BESIDE
        self.heard.set()
        said = list(user_texts(request))
        prompt = self._attempt.prompt.strip()
        if self._sub_agents and said and not any(prompt in text for text in said):
            return f"agent:{digest(said[0].encode())}"
        self._note_delivered(request)
        return MAIN

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return without_sentinel(request)

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        if lane != MAIN:
            return None
        offered = tool_names(request)
        missing = [tool for tool in self._agent.served if not any(names_ours(name, tool) for name in offered)]
        return f"the tools {', '.join(sorted(missing))} are missing from the request" if missing else None

    async def recorded(self, *, tool: bool = False) -> None:
        await self._agent.record()

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Of the open calls of the tool one that has these arguments, each once."""
        for state in self._attempt.turn.open_calls():
            intent, given = state.intent, state.intent.arguments
            if intent.runs_in != "worker" or intent.name != name or intent.harness_id in self._taken:
                continue
            if given.ref or given.value() == dict(arguments):
                self._taken.add(intent.harness_id)
                return intent.harness_id
        return UNASKED

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk:
        return HookAsk("other")

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        return {}

    def _note_delivered(self, request: Mapping[str, Any]) -> None:
        """An answer whose tool results the agent brings is in its own files."""
        brought = results_of(request)
        asked: dict[int, list[str]] = {}
        for state in self._attempt.turn.calls.values():
            if state.intent.kind in ASKED_FOR and state.intent.asked_by:
                asked.setdefault(state.intent.asked_by, []).append(state.intent.harness_id)
        known = [call for call, ids in asked.items() if all(one in brought for one in ids)]
        self._attempt.calls.delivered(
            [call for call in known if _is_settled(self._attempt.turn.calls.get(call))]
        )


def names_ours(name: str, tool: str, *, bare: bool = True) -> bool:
    """Whether an agent calls the application's `tool` so, from a server that is called `outlast`.

    Args:
        bare: it may leave the server out.
    """
    if bare and name == tool:
        return True
    # One word: what an agent shows of a call of its own, a command say, may name a tool of ours as well.
    return re.fullmatch(rf"(?:\w+[.:-])*\w*outlast[\w.:-]*[_.:-]{re.escape(tool)}", name) is not None


def _is_settled(state: CallState | None) -> bool:
    return state is not None and state.intent.lane == MAIN and state.outcome is not None
