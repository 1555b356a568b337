"""LangGraph: a checkpointer over a World, and graphs as agents whose calls outlast the process."""

from outlast.adapters.langgraph.checkpointer import OutlastSaver
from outlast.adapters.langgraph.graph import LangGraph
from outlast.adapters.langgraph.models import durable_model
from outlast.adapters.langgraph.running import node_io
from outlast.adapters.langgraph.tools import durable_tool

__all__ = ["LangGraph", "OutlastSaver", "durable_model", "durable_tool", "node_io"]
