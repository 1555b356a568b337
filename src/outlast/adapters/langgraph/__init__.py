"""LangGraph: a checkpointer over a World, and graphs as agents whose calls outlast the process."""

from outlast.adapters.langgraph.checkpointer import OutlastSaver
from outlast.adapters.langgraph.graph import LangGraph
from outlast.adapters.langgraph.models import durable_model
from outlast.adapters.langgraph.running import node_io, steers
from outlast.adapters.langgraph.tools import durable_tool
from outlast.adapters.langgraph.waiting import waiting_tools

__all__ = ["LangGraph", "OutlastSaver", "durable_model", "durable_tool", "node_io", "steers", "waiting_tools"]
