"""Driving Claude Code, unchanged, so that its turns outlast the process they run in."""

from outlast.adapters.claude_code.adapter import ClaudeCode

__all__ = ["ClaudeCode"]
