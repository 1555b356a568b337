"""The checkpointer, held to LangGraph's own conformance suite on every World, and to what we promise beyond."""

# LangGraph ships no marker that it is typed, and leaves parameters of its own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import asyncio
import operator
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.test_utils import (
    generate_checkpoint,
    generate_metadata,
    put_test_checkpoint,
)
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from outlast.adapters.langgraph import OutlastSaver
from outlast.adapters.langgraph.threads import session_of
from outlast.errors import BadInput, CheckpointTaken, NotIdle
from outlast.ids import check_session_id
from outlast.opening import open_world
from outlast.records import FORMAT
from outlast.testing.world_contract.blocks import TAKEOVER, renew, sent
from outlast.world import WorkerOffer, World
from outlast.worlds.memory import open_memory
from outlast.worlds.sqlite import open_sqlite
from tests.servers.postgres import PostgresServer


async def _hold(opening: AbstractAsyncContextManager[World]) -> None:
    async with opening as world:

        @checkpointer_test(name=world.name)
        async def savers() -> AsyncGenerator[BaseCheckpointSaver[Any]]:
            yield OutlastSaver(world)

        report = await validate(savers)
    assert {name: result.failures for name, result in report.results.items()} == {
        one.value: [] for one in Capability
    }
    assert all(result.passed for result in report.results.values())
    assert report.conformance_level() == "FULL"


async def test_memory_passes_the_conformance_suite() -> None:
    await _hold(open_memory())


async def test_sqlite_passes_the_conformance_suite(tmp_path: Path) -> None:
    await _hold(open_sqlite(tmp_path / "world.db"))


@pytest.mark.server
async def test_postgres_passes_the_conformance_suite(postgres: PostgresServer) -> None:
    await _hold(open_world(postgres.new_url()))


class _Talk(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    steps: Annotated[int, operator.add]


def _talker(saver: BaseCheckpointSaver[Any]) -> "CompiledStateGraph[Any, Any, Any, Any]":
    def answer(state: _Talk) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer {state['steps']}: " + "word " * 40)], "steps": 1}

    builder = StateGraph(_Talk)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def _of(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


async def _say(graph: "CompiledStateGraph[Any, Any, Any, Any]", thread: str, text: str) -> Any:
    asked = {"messages": [HumanMessage(text)], "steps": 0}
    return await graph.ainvoke(asked, _of(thread), durability="sync")


async def test_another_process_goes_on_with_the_thread(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "world.db") as world:
        await _say(_talker(OutlastSaver(world)), "t", "one")
    async with open_sqlite(tmp_path / "world.db") as world:
        graph = _talker(OutlastSaver(world))
        after = await _say(graph, "t", "two")
        assert [message.type for message in after["messages"]] == ["human", "ai", "human", "ai"]
        states = [state async for state in graph.aget_state_history(_of("t"))]
    assert len(states) == 6
    assert [len(state.values.get("messages", ())) for state in states] == [4, 3, 2, 2, 1, 0]


async def test_a_step_costs_what_is_new_in_it() -> None:
    async with open_memory() as world:
        graph = _talker(OutlastSaver(world))
        sizes: list[int] = []
        for turn in range(60):
            await _say(graph, "long", f"question {turn}")
            commits = await world.commits("long")
            sizes.append(sum(len(commit.body) for commit in commits))
            assert not any(commit.header.refs for commit in commits)
    early, late = sizes[19] - sizes[9], sizes[59] - sizes[49]
    assert late < early * 1.1


async def test_of_two_runs_that_go_on_from_one_checkpoint_the_second_is_stopped(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "world.db") as one, open_sqlite(tmp_path / "world.db") as other:
        savers = [OutlastSaver(one), OutlastSaver(other)]
        parent = await put_test_checkpoint(savers[0], thread_id="t")
        config = parent.get("configurable", {})
        await savers[1].aget_tuple(parent)
        ended = await asyncio.gather(
            *(
                saver.aput({"configurable": dict(config)}, generate_checkpoint(), generate_metadata(), {})
                for saver in savers
            ),
            return_exceptions=True,
        )
        assert sorted(type(end).__name__ for end in ended) == ["CheckpointTaken", "dict"]
        seen = [[found.checkpoint["id"] async for found in saver.alist(_of("t"))] for saver in savers]
        assert seen[0] == seen[1]
        assert len(seen[0]) == 2


async def test_writes_of_parallel_tasks_in_two_processes_all_land(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "world.db") as one, open_sqlite(tmp_path / "world.db") as other:
        savers = [OutlastSaver(one), OutlastSaver(other)]
        at = await put_test_checkpoint(savers[0], thread_id="t")
        await asyncio.gather(
            *(savers[task % 2].aput_writes(at, [("channel", task)], f"task-{task:02}") for task in range(20))
        )
        for saver in savers:
            found = await saver.aget_tuple(at)
            assert found is not None
            assert [write[2] for write in found.pending_writes or ()] == list(range(20))


async def test_a_graph_may_go_back_and_branch() -> None:
    async with open_memory() as world:
        graph = _talker(OutlastSaver(world))
        await _say(graph, "t", "one")
        await _say(graph, "t", "two")
        states = [state async for state in graph.aget_state_history(_of("t"))]
        (before,) = [
            state for state in states if len(state.values.get("messages", ())) == 2 and not state.next
        ]
        branched = await graph.ainvoke({"messages": [HumanMessage("else")], "steps": 0}, before.config)
        assert [message.content for message in branched["messages"] if message.type == "human"] == [
            "one",
            "else",
        ]
        old = await graph.aget_state(states[0].config)
        assert [message.content for message in old.values["messages"] if message.type == "human"] == [
            "one",
            "two",
        ]


async def test_what_is_deleted_is_gone_and_its_thread_may_begin_anew() -> None:
    async with open_memory() as world:
        saver = OutlastSaver(world)
        for life in range(3):
            await put_test_checkpoint(saver, thread_id="t", channel_values={"life": life})
            elsewhere = OutlastSaver(world)
            assert await elsewhere.aget_tuple(_of("t")) is not None
            await elsewhere.adelete_thread("t")
            assert await saver.aget_tuple(_of("t")) is None
        found = await world.list()
        assert [head.session for head in found.sessions] == []


async def test_every_thread_is_listed_by_its_own_name() -> None:
    async with open_memory() as world:
        saver = OutlastSaver(world)
        names = {"plain", "Übung 7", "lg-plain", "x" * 500}
        for name in names:
            await put_test_checkpoint(saver, thread_id=name)
        listed = {found.config.get("configurable", {})["thread_id"] async for found in saver.alist(None)}
        assert listed == names


@given(
    st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True), st.integers(1, 3), st.integers(1, 3)
)
def test_two_threads_never_share_a_session(threads: list[str], life: int, other: int) -> None:
    named = [session_of(threads[0], life), session_of(threads[1], other)]
    assert named[0] != named[1]
    assert [check_session_id(name) for name in named] == named


async def test_a_thread_that_a_worker_advances_is_left_alone() -> None:
    async with open_memory() as world:
        saver = OutlastSaver(world)
        at = await put_test_checkpoint(saver, thread_id="t")
        renew(world, "w1")
        await sent(world, "t", "in-1")
        offered = WorkerOffer("w1", frozenset({"langgraph"}), FORMAT)
        assert await world.claim(offered, TAKEOVER) is not None
        with pytest.raises(NotIdle):
            await saver.aput_writes(at, [("channel", 1)], "task")


def test_without_an_event_loop_the_graph_runs_too(tmp_path: Path) -> None:
    with OutlastSaver.blocking(open_sqlite(tmp_path / "world.db")) as saver:
        graph = _talker(saver)
        for text in ("one", "two"):
            graph.invoke({"messages": [HumanMessage(text)], "steps": 0}, _of("t"))
        assert len(graph.get_state(_of("t")).values["messages"]) == 4
        assert len(list(saver.list(_of("t")))) == 6
        saver.delete_thread("t")
        assert saver.get_tuple(_of("t")) is None


async def test_asked_in_its_own_loop_without_await_it_says_so() -> None:
    async with open_memory() as world:
        with pytest.raises(BadInput, match="ainvoke"):
            OutlastSaver(world).get_tuple(_of("t"))


async def test_pruning_leaves_what_a_channel_of_changes_is_put_together_from() -> None:
    async with open_memory() as world:
        saver = OutlastSaver(world)
        at = await put_test_checkpoint(saver, thread_id="t", channel_values={"log": ["a"], "now": 1})
        counted = {"log": (1, 1)}
        for step in range(1, 4):
            await saver.aput_writes(at, [("log", step)], f"task-{step}")
            at = await put_test_checkpoint(
                saver,
                thread_id="t",
                parent_config=at,
                channel_values={"now": step},
                channel_versions={"log": step + 1, "now": step + 1},
                metadata=generate_metadata(step=step, counters_since_delta_snapshot=counted),
            )
        await saver.aprune(["t"])
        history = await saver.aget_delta_channel_history(config=at, channels=["log"])
        assert history["log"].get("seed") == ["a"]
        assert [write[2] for write in history["log"]["writes"]] == [1, 2, 3]


def test_a_refusal_names_both_checkpoints() -> None:
    assert "by checkpoint b" in str(CheckpointTaken(checkpoint="a", by="b"))
