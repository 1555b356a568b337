"""A compiled graph as an agent: it runs in a turn, and outlasts the process."""

# LangGraph ships no marker that it is typed, and both it and LangChain leave parameters of their own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Final, TypeAlias, cast

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.pregel import Pregel
from langgraph.types import Command

from outlast.adapter import Attempt, TurnResult, Waiting
from outlast.adapters.foreign import Replay
from outlast.adapters.io import IO
from outlast.adapters.langgraph.conversation import sound
from outlast.adapters.langgraph.interrupts import answers, waiter
from outlast.adapters.langgraph.running import Running, running
from outlast.adapters.langgraph.tools import replay_of
from outlast.adapters.langgraph.turn import TurnSaver
from outlast.adapters.python import Loop
from outlast.codec import to_json
from outlast.errors import BadInput
from outlast.records.kinds import Policy

Graph: TypeAlias = Pregel[Any, Any, Any, Any]
ReadPrompt: TypeAlias = Callable[[str], Any]
MakeResult: TypeAlias = Callable[[Any], object]

_attempts: Final[ContextVar[Attempt]] = ContextVar("outlast_langgraph_attempt")
BREAK: Final = "The graph stops before {nodes}. Shall it go on?"


def messages(prompt: str) -> Any:
    """The prompt as the input of a graph whose state holds messages."""
    return {"messages": [HumanMessage(prompt)]}


def last_text(state: Any) -> object:
    """The text of the last message, of a graph whose state holds messages; else the state, as JSON."""
    known: dict[str, Any] = state if isinstance(state, dict) else {}
    said: Sequence[Any] = known.get("messages") or ()
    if said and isinstance(said[-1], BaseMessage):
        return str(said[-1].text)
    return state


class LangGraph(Loop):
    """The adapter of a compiled graph.

    A turn is one invocation of the graph, its thread the session. Each step's checkpoint is durable before the next
    begins; nodes that have ended are not run again, and in one that was cut off the calls of durable models and tools
    that have ended are read from the log. An `interrupt` waits for a person, for days if it must be: its value is the
    question, and what is decided is what it returns. `{"signal": name}` waits for a signal, `{"sleep": seconds}` for
    some time.

    Args:
        graph: compiled; a checkpointer that it has is not used in a turn.
        tools: what `durable_tool` made, for the policies that they were given.
        read: makes the graph's input of a prompt.
        result: makes the turn's result, JSON, of the state at the end.
        config: of each invocation, such as a `recursion_limit`.
        settings: JSON that a new session records.
    """

    name = "langgraph"

    def __init__(
        self,
        graph: Any,
        *,
        tools: Sequence[BaseTool] = (),
        read: ReadPrompt = messages,
        result: MakeResult = last_text,
        config: RunnableConfig | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(graph, Pregel):
            raise BadInput(
                detail=f"{type(graph).__name__} is no compiled graph. Give what `compile()` returns."
            )
        foreign: dict[str, Replay | Policy] = {}
        for tool in tools:
            replay = replay_of(tool)
            if replay is not None:  # else it is one of the agent's own
                foreign[tool.name] = replay
        super().__init__(self._carry, settings=settings, foreign=foreign)
        self._graph = cast("Graph", graph)
        self._names = list(foreign)
        self._read = read
        self._result = result
        self._config: RunnableConfig = config or {}

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), "langgraph": version("langgraph")}

    async def advance(self, attempt: Attempt) -> TurnResult | Waiting:
        token = _attempts.set(attempt)
        try:
            return await super().advance(attempt)
        finally:
            _attempts.reset(token)

    async def _carry(self, io: IO, prompt: str) -> object:
        attempt = _attempts.get()
        saver = TurnSaver(attempt)
        index = await saver.index()
        newest = index.find("")
        before = await io.once("checkpoint", lambda: "" if newest is None else newest.id)
        begun = newest is not None and newest.id != before
        turn = Running(attempt, io, self._names)
        token = running.set(turn)
        try:
            graph = self._graph.copy({"checkpointer": saver})
            config = self._configured(io)
            given = None if begun else self._read(prompt)
            if newest is not None and not begun:
                given = sound(given, await graph.aget_state(config))
            state = await self._invoke(graph, config, io, given)
        finally:
            running.reset(token)
        turn.ended()
        result = self._result(state)
        to_json(result, what="The result of the graph")
        return result

    def _configured(self, io: IO) -> RunnableConfig:
        known = self._config.get("configurable", {})
        return {**self._config, "configurable": {**known, "thread_id": io.session}}

    async def _invoke(self, graph: Graph, config: RunnableConfig, io: IO, given: Any) -> Any:
        """Run the graph to its end, and wait with it."""
        while True:
            state = await graph.ainvoke(given, config, durability="sync")
            stands = await graph.aget_state(config)
            if stands.interrupts:
                given = Command(resume=await answers(io, _attempts.get().calls.rewind, stands.interrupts))
            elif stands.next:
                at = str(stands.config.get("configurable", {}).get("checkpoint_id"))
                await io.beside(f"ask:{at}", waiter(BREAK.format(nodes=", ".join(stands.next))))
                given = None
            else:
                return state
