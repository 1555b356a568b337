"""How a call tells the benchmark that it begins, and the tools of harnesses that do so."""

import asyncio
import os
import socket
from contextlib import suppress

import msgspec

from outlast.tool import ToolIO, tool

SOCKET_VARIABLE = "OUTLAST_BENCH_SOCKET"
LOOK_S = 0.3
HOLD_S = 600.0


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


@tool(replay="safe", name="look")
async def slow_look(io: ToolIO) -> str:
    """Say that the call began, and take long enough to be killed meanwhile."""
    say(io.session, io.call)
    await asyncio.sleep(LOOK_S)
    return "nothing new"


@tool(replay="safe", name="hold")
async def hold(io: ToolIO) -> str:
    """Say that the call began, and go on until the turn is cancelled."""
    say(io.session, io.call)
    await asyncio.sleep(HOLD_S)
    return "nothing came"
