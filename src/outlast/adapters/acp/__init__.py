"""Any agent that speaks the Agent Client Protocol over its standard input and output."""

from outlast.adapters.acp.adapter import Acp, ModelDoor

__all__ = ["Acp", "ModelDoor"]
