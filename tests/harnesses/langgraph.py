"""LangGraph under the adapter contract: a graph of the usual kind, whose model is LangChain's client of Anthropic's."""

# LangGraph ships no marker that it is typed, and leaves parameters of its own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownLambdaType=false

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import anyio
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import SecretStr

from outlast.adapter import Agent
from outlast.adapters.langgraph import LangGraph, durable_model, durable_tool
from outlast.adapters.langgraph.running import running
from outlast.testing.adapter_contract import Subject
from outlast.testing.adapter_contract.shop import Effects
from outlast.testing.adapter_contract.stage import prompt
from outlast.testing.models import ToolUse
from outlast.tool import Tool

_NO_HOOK: Final = "It runs in the worker: there is no hook that could fail."
_NO_PROCESS: Final = "It runs in the worker: there is no program of its own to kill or to upgrade."
_NO_STEER: Final = (
    "A steer is not put into the state of a graph, which is the program's own; it is the next prompt."
)
_NO_COMPACTION: Final = "It compacts nothing of its own accord."


class LangGraphSubject(Subject):
    """The real library."""

    name = "langgraph"
    dialect = "anthropic"
    recipe = "tests.harnesses.langgraph:SUBJECT"
    lacks: ClassVar[Mapping[str, str]] = {
        "a_steer_is_carried_by_a_request_and_consumed_by_its_commit": _NO_STEER,
        "a_hook_that_fails_blocks_the_tool": _NO_HOOK,
        "a_hook_that_is_gone_blocks_the_tool": _NO_HOOK,
        "a_hook_that_answers_nonsense_blocks_the_tool": _NO_HOOK,
        "a_hook_that_breaks_off_blocks_the_tool": _NO_HOOK,
        "a_hook_that_hangs_holds_the_tool_back_until_the_turn_is_cancelled": _NO_HOOK,
        "a_harness_killed_alone_is_started_again_and_repeats_nothing": _NO_PROCESS,
        "a_harness_upgraded_in_between_is_warned_about_and_repeats_nothing": _NO_PROCESS,
        "a_compaction_by_the_harness_is_no_divergence": _NO_COMPACTION,
        "a_compaction_killed_when_it_is_asked_for_is_carried_on": _NO_COMPACTION,
        "a_compaction_killed_before_it_is_delivered_is_carried_on": _NO_COMPACTION,
        "a_turn_killed_right_after_its_compaction_is_carried_on": _NO_COMPACTION,
        "a_turn_killed_in_a_tool_after_its_compaction_is_carried_on": _NO_COMPACTION,
    }

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, _graph(tools, upstream), tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="run_shell", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write_file", input={"path": path, "text": text})

    def sub_agent(self, conversation: str) -> ToolUse:
        return ToolUse(name="ask_other", input={"told": prompt(conversation)})


@tool
async def run_shell(command: str) -> str:
    """Run a command of the shell in the session's directory."""
    done = await anyio.run_process(["sh", "-c", command], cwd=_place(), stderr=subprocess.STDOUT)
    return done.stdout.decode()


@tool
async def write_file(path: str, text: str) -> str:
    """Make a file in the session's directory."""
    await anyio.Path(_place() / path).write_text(text)
    return f"wrote {path}"


def _place() -> Path:
    """Where the contract has its sessions work: beside the directory of the effects."""
    turn = running.get()
    assert turn is not None
    return Effects.of(turn.attempt.session).file.parent.parent / "shop"


def _graph(tools: Sequence[Tool], upstream: str) -> LangGraph:
    chat = durable_model(
        ChatAnthropic(
            model_name="claude-sonnet-5",
            base_url=upstream,
            api_key=SecretStr("k"),
            max_retries=0,
            timeout=None,
            stop=None,
        )
    )

    @tool
    async def ask_other(told: str) -> str:
        """Have another look into something."""
        other = chat.bind_tools(offered)
        return str((await other.ainvoke([HumanMessage(told)])).text)

    own: list[BaseTool] = [durable_tool(run_shell), durable_tool(write_file), durable_tool(ask_other, "safe")]
    offered = [*own, *(durable_tool(one) for one in tools)]
    model = chat.bind_tools(offered)
    builder: Any = StateGraph(MessagesState).add_node("tools", ToolNode(offered))

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder.add_node("answer", answer).add_edge(START, "answer").add_edge("tools", "answer")
    builder.add_conditional_edges("answer", tools_condition)
    return LangGraph(builder.compile(), tools=offered)


SUBJECT = LangGraphSubject()
