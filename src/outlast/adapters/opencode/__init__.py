"""OpenCode as a harness."""

from outlast.adapters.opencode.adapter import OpenCode

__all__ = ["OpenCode"]
