"""LangGraph under the adapter contract: a graph of the usual kind, whose model is LangChain's client of Anthropic's."""

# LangGraph ships no marker that it is typed, and leaves parameters of its own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownLambdaType=false

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import SecretStr

from outlast.adapter import Agent
from outlast.adapters.langgraph import LangGraph, durable_model, durable_tool, steers, waiting_tools
from outlast.adapters.langgraph.models import DurableModel
from outlast.testing.adapter_contract import Subject
from outlast.testing.adapter_contract.attachment_cases import IMAGES
from outlast.testing.adapter_contract.stage import prompt
from outlast.testing.models import ToolUse
from outlast.tool import Tool
from tests.harnesses.loops import LACKS, run_shell, write_file
from tests.harnesses.refusing import NO_FILES


class LangGraphSubject(Subject):
    """The real library."""

    name = "langgraph"
    dialect = "anthropic"
    recipe = "tests.harnesses.langgraph:SUBJECT"
    lacks: ClassVar[Mapping[str, str]] = {**LACKS, **dict.fromkeys(IMAGES, NO_FILES)}

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, _carried(tools, upstream), tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="run_shell", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write_file", input={"path": path, "text": text})

    def sub_agent(self, conversation: str) -> ToolUse:
        return ToolUse(name="ask_other", input={"told": prompt(conversation)})


def _carried(tools: Sequence[Tool], upstream: str) -> LangGraph:
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
    shared = [durable_tool(tool(run_shell)), durable_tool(tool(write_file)), *map(durable_tool, tools)]
    shared += waiting_tools()
    other = _graph(chat, shared)

    @tool
    async def ask_other(told: str) -> str:
        """Have another look into something."""
        state = await other.ainvoke({"messages": [HumanMessage(told)]})
        return str(state["messages"][-1].text)

    offered = [*shared, durable_tool(ask_other, "safe")]
    return LangGraph(_graph(chat, offered), tools=offered)


def _graph(chat: DurableModel, tools: Sequence[BaseTool]) -> Any:
    """A model and its tools, in turns."""
    model = chat.bind_tools(tools)

    async def answer(state: MessagesState) -> dict[str, Any]:
        told = [HumanMessage(text) for text in await steers()]
        return {"messages": [*told, await model.ainvoke([*state["messages"], *told])]}

    builder: Any = StateGraph(MessagesState).add_node("answer", answer).add_node("tools", ToolNode(tools))
    builder.add_edge(START, "answer").add_edge("tools", "answer")
    builder.add_conditional_edges("answer", tools_condition)
    return builder.compile()


SUBJECT = LangGraphSubject()
