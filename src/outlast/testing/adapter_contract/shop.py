"""An application with a tool of every policy, each with an effect that can be counted.

The outside world is a directory that `EFFECTS` names: one file for each session, one line for each effect.
"""

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import msgspec

from outlast.model import image
from outlast.tool import Done, NotDone, Tool, ToolFailed, ToolIO, Verdict, tool

EFFECTS: Final = "OUTLAST_CONTRACT_EFFECTS"
"""Names the directory that stands for the outside world."""


class Effect(msgspec.Struct, frozen=True):
    """Something that a tool did outside."""

    mark: str
    tool: str
    key: str = ""
    attempt: int = 0


@dataclass(frozen=True)
class Effects:
    """What happened outside in one session."""

    file: Path

    @classmethod
    def of(cls, session: str) -> "Effects":
        return cls(Path(os.environ[EFFECTS]) / f"{session}.jsonl")

    def all(self) -> list[Effect]:
        if not self.file.exists():
            return []
        whole, _, _torn = self.file.read_bytes().rpartition(b"\n")
        return [msgspec.json.decode(line, type=Effect) for line in whole.splitlines()]

    def count(self, mark: str) -> int:
        return sum(effect.mark == mark for effect in self.all())

    def add(self, effect: Effect) -> None:
        line = msgspec.json.encode(effect) + b"\n"
        fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)


def effect_command(session: str, mark: str, then: str = "") -> str:
    """A shell command, run beside the directory of effects, with the same kind of effect; `never`, since it writes."""
    line = msgspec.json.encode(Effect(mark, "shell")).decode()
    return f"printf '%s\\n' '{line}' >> ../effects/{session}.jsonl{then}"


def release(name: str) -> None:
    """Let every tool that waits for `name` end."""
    (Path(os.environ[EFFECTS]) / name).touch()


async def _act(io: ToolIO, name: str, mark: str, hold_s: float, until: str) -> str:
    Effects.of(io.session).add(Effect(mark, name, io.key, io.attempt))
    io.show(f"{name} {mark} has begun\n")
    await anyio.sleep(hold_s)
    while until and not (Path(os.environ[EFFECTS]) / until).exists():  # noqa: ASYNC110 - files tell nobody
        await anyio.sleep(0.01)
    return f"{name} {mark} is done"


async def _took_effect(io: ToolIO, mark: str, **_: object) -> Verdict:
    return Done(f"book {mark} is done") if Effects.of(io.session).count(mark) else NotDone()


@tool
async def charge(io: ToolIO, mark: str, hold_s: float = 0.0, until: str = "") -> str:
    """Do something that must not happen twice."""
    return await _act(io, "charge", mark, hold_s, until)


@tool(replay="safe")
async def look(io: ToolIO, mark: str, hold_s: float = 0.0, until: str = "") -> str:
    """Do something that may be repeated."""
    return await _act(io, "look", mark, hold_s, until)


@tool(replay="keyed")
async def pay(io: ToolIO, mark: str, hold_s: float = 0.0, until: str = "") -> str:
    """Do something that the outside does once for each key."""
    return await _act(io, "pay", mark, hold_s, until)


@tool(verify=_took_effect)
async def book(io: ToolIO, mark: str, hold_s: float = 0.0, until: str = "") -> str:
    """Do something that the outside can be asked about."""
    return await _act(io, "book", mark, hold_s, until)


@tool(replay="safe", timeout_s=3600.0)
async def wait_an_hour(io: ToolIO, mark: str, until: str) -> str:
    """Wait for something that may take an hour."""
    return await _act(io, "wait_an_hour", mark, 0.0, until)


@tool
async def refuse(io: ToolIO, mark: str) -> str:  # noqa: ARG001 - every tool is given io
    """Fail with a reason that the model should read."""
    raise ToolFailed(f"{mark} cannot be done")


def picture() -> bytes:
    """A small PNG (ISO/IEC 15948): red, 8 by 8."""
    rows = zlib.compress(8 * (b"\x00" + 8 * b"\xff\x00\x00"))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@tool(replay="safe")
async def draw(io: ToolIO, mark: str) -> object:
    """Draw something red."""
    return [await _act(io, "draw", mark, 0.0, ""), image(picture())]


TOOLS: Final[tuple[Tool, ...]] = (charge, look, pay, book, wait_an_hour, refuse, draw)
