"""Codex as a harness: the program of npm's `@openai/codex`, driven through its `app-server`."""

from outlast.adapters.codex.adapter import Codex

__all__ = ["Codex"]
