"""A LangGraph agent that outlasts its process: `outlast run examples.langgraph_clerk:clerk "Refund order 81: 1250"`."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownLambdaType=false
import os
from pathlib import Path
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from outlast import Agent
from outlast.adapters.langgraph import LangGraph, durable_model, durable_tool


@tool
def refund(order: str, cents: int) -> str:
    """Refund an order, in cents."""
    with Path(os.environ.get("LEDGER", "ledger.txt")).open("a") as ledger:
        return f"entry at {ledger.tell()}: {ledger.write(f'{order} {cents}; ')} letters"


tools = [durable_tool(refund)]
chat = ChatAnthropic(model_name="claude-sonnet-5-5", timeout=None, stop=None)
model = durable_model(chat).bind_tools(tools)
builder: Any = StateGraph(MessagesState).add_node("tools", ToolNode(tools))
builder.add_node("answer", lambda state: {"messages": [model.invoke(state["messages"])]})
builder.add_edge(START, "answer").add_edge("tools", "answer").add_conditional_edges("answer", tools_condition)
clerk = Agent("clerk", LangGraph(builder.compile(), tools=tools))
