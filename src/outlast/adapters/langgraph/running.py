"""Where in a graph something is called: the turn that runs the graph, and the lane of the task."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from langgraph.config import get_config

from outlast.adapter import Attempt, ToolAsk, ToolResult
from outlast.adapters.foreign import ForeignCall, RunForeign
from outlast.adapters.io import IO
from outlast.calls import MAIN
from outlast.errors import BadInput

T = TypeVar("T")


class Running:
    """A graph in a turn: each of its tasks is a lane, and makes one call after the other.

    A task that LangGraph runs once more, after an interrupt or a failure, makes its calls once more too: those that
    have ended are read from the log.
    """

    def __init__(self, attempt: Attempt, io: IO, names: Iterable[str]) -> None:
        self.attempt = attempt
        self.names = frozenset((*names, *attempt.tools))
        """Tools that run durably as models call them."""
        self.loop = asyncio.get_running_loop()
        self._io = io
        self._runs: dict[str, object] = {}
        """By lane, the run of its task that made the last call."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def call(self, job: Callable[[IO], Awaitable[T]]) -> T:
        """Make a call in the lane of the task, or of the durable tool, that this runs in."""
        inner = within.get()
        if inner is not None:
            async with self._locks[inner.lane]:
                return await job(inner)
        key, run = _task(get_config())
        async with self._locks[key]:
            lane = f"{MAIN}.{key}"
            if self._runs.get(key, run) != run:
                self.attempt.calls.rewind(lane)
            self._runs[key] = run
            return await self._io.beside(key, job)

    async def tool(self, ask: ToolAsk, run: RunForeign) -> ToolResult:
        """Run a tool that a model has called by an id, or read how it ended."""

        async def inside(call: ForeignCall) -> ToolResult:
            token = within.set(call.io)
            try:
                return await run(call)
            finally:
                within.reset(token)

        return await self._io.foreign_tool(ask.harness_id, ask.name, ask.arguments, inside)

    def here(self, job: Coroutine[Any, Any, T]) -> T:
        """Do `job` for a node that is no coroutine: it runs in a thread, and waits there."""
        return asyncio.run_coroutine_threadsafe(job, self.loop).result()

    def ended(self) -> None:
        """The graph has ended. What tasks did that have not run since is in its checkpoints."""
        lanes = {call.intent.lane for call in self.attempt.turn.calls.values()} - {MAIN}
        for lane in lanes:
            if lane.removeprefix(f"{MAIN}.").split(".", maxsplit=1)[0] not in self._runs:
                self.attempt.calls.pass_by(lane)


within: Final[ContextVar[IO | None]] = ContextVar("outlast_langgraph_tool", default=None)
"""The lane of the durable tool that runs here, if one does."""
running: Final[ContextVar[Running | None]] = ContextVar("outlast_langgraph", default=None)
"""The turn that runs the graph; None outside of one."""


def _task(config: Mapping[str, Any]) -> tuple[str, object]:
    """What tells a task of the turn from all others, the same in every attempt; and what tells its runs apart."""
    known: dict[str, Any] = config.get("configurable", {})
    space = str(known.get("checkpoint_ns", ""))
    if not space:
        raise BadInput(
            detail="Within a turn, durable models and tools are called by the nodes of the graph only."
        )
    info = getattr(known.get("__pregel_runtime"), "execution_info", None)
    return space.replace(".", "·"), (id(known.get("__pregel_scratchpad")), getattr(info, "node_attempt", 1))


async def node_io(job: Callable[[IO], Awaitable[T]]) -> T:
    """Do something durably in the lane of the node that this is called in: run one of the agent's tools, say.

    ```python
    async def pay(state):
        receipt = await node_io(lambda io: io.tool(refund, order=state["order"]))
    ```

    Raises:
        BadInput: no turn runs the graph.
    """
    turn = running.get()
    if turn is None:
        raise BadInput(detail="No turn runs this graph: give it to an agent, as `LangGraph(graph)`.")
    return await turn.call(job)


async def steers() -> Sequence[str]:
    """What the turn was told meanwhile: put it into the next request of this node's durable model, and the state.

    ```python
    async def answer(state):
        told = [HumanMessage(text) for text in await steers()]
        said = await model.ainvoke([*state["messages"], *told])
        return {"messages": [*told, said]}
    ```

    What no request takes becomes the next prompt. Outside a turn there is nothing.
    """

    async def look(io: IO) -> Sequence[str]:
        return io.steers()

    turn = running.get()
    return () if turn is None else await turn.call(look)
