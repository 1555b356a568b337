"""Agents for worker processes, which say by datagram when each of their calls begins."""

import asyncio
import os
import socket
from contextlib import suppress

import msgspec

from outlast.adapter import Agent
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.scripted import Scripted
from outlast.tool import ToolIO, tool

SOCKET_VARIABLE = "OUTLAST_BENCH_SOCKET"
CALLS = 5_000
CALL_S = 0.005
"""How long a call takes: a turn does not grow faster than a real one."""
LOOK_S = 0.3


class Began(msgspec.Struct, frozen=True):
    """A call began, at this moment of the clock that all processes share."""

    session: str
    call: int
    pid: int
    at_s: float


def say(session: str, call: int) -> None:
    """Tell the benchmark that a call begins."""
    began = Began(session, call, os.getpid(), now_s())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.settimeout(0)  # a benchmark that does not listen must not hold up a worker
        sender.sendto(msgspec.msgpack.encode(began), os.environ[SOCKET_VARIABLE])


def now_s() -> float:
    """The monotonic clock, the same in every process of this machine."""
    return asyncio.get_running_loop().time()


@tool(replay="safe")
async def work(io: ToolIO) -> str:
    """Say that the call began, and take a moment."""
    say(io.session, io.call)
    await asyncio.sleep(CALL_S)
    return "done"


@tool(replay="safe", name="look")
async def slow_look(io: ToolIO) -> str:
    """Say that the call began, and take long enough to be killed meanwhile."""
    say(io.session, io.call)
    await asyncio.sleep(LOOK_S)
    return "nothing new"


steady = Agent("steady", Scripted(script=[{"do": "tool", "name": "work"}] * CALLS), tools=[work])
claude = Agent("claude-bench", ClaudeCode(model="claude-sonnet-4-5"), tools=[slow_look])
