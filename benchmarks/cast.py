"""Agents for worker processes, which say by datagram when each of their calls begins."""

import asyncio

from benchmarks.saying import say, slow_look
from outlast.adapter import Agent
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.scripted import Scripted
from outlast.tool import ToolIO, tool

CALLS = 5_000
CALL_S = 0.005
"""How long a call takes: a turn does not grow faster than a real one."""


@tool(replay="safe")
async def work(io: ToolIO) -> str:
    """Say that the call began, and take a moment."""
    say(io.session, io.call)
    await asyncio.sleep(CALL_S)
    return "done"


steady = Agent("steady", Scripted(script=[{"do": "tool", "name": "work"}] * CALLS), tools=[work])
claude = Agent("claude-bench", ClaudeCode(model="claude-sonnet-4-5"), tools=[slow_look])
