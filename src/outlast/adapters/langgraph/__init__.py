"""LangGraph: a checkpointer over a World, and graphs as agents whose calls outlast the process."""

from outlast.adapters.langgraph.checkpointer import OutlastSaver

__all__ = ["OutlastSaver"]
