"""LangGraph: a node that a graph runs again and again, AsyncPostgresSaver, durability="sync".

Promised per step (a superstep): its checkpoint is committed before the next begins, in two commits (what the node
wrote, then the checkpoint). Its beginning is not written down, and nobody notices a dead process:
whoever holds the thread's id must call again. The 32 graphs share the saver's pool.
"""

import asyncio
import operator
import time
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from telling import LONG, SESSIONS, STEPS, Pace, repeats, text, url

pace = Pace()
CONNECTIONS = 8


class State(TypedDict):
    made: Annotated[int, operator.add]
    steps: int
    last: str


async def step(state: State) -> dict[str, Any]:
    pace.step()
    return {"made": 1, "last": text(state["made"])}


def further(state: State) -> str:
    return "step" if state["made"] < state["steps"] else END


async def main() -> None:
    kept = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(
        url(), min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs=kept, open=False
    ) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        drawn = StateGraph(State)
        drawn.add_node("step", step)
        drawn.add_edge(START, "step")
        drawn.add_conditional_edges("step", further, ["step", END])
        graph = drawn.compile(checkpointer=saver)

        async def run(thread: str, steps: int) -> None:
            config = {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}
            await graph.ainvoke({"made": 0, "steps": steps, "last": ""}, config, durability="sync")

        for repeat in range(repeats() + 1):
            await run(f"long-{repeat}", LONG)
            pace.sequence()
            began_s = time.perf_counter()
            await asyncio.gather(*[run(f"{repeat}-{number}", STEPS) for number in range(SESSIONS)])
            pace.many(began_s)


asyncio.run(main())
pace.tell("langgraph")
