"""Processes of their own that write to a World until they are killed, and what they acknowledged before."""

import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.testing.world_contract.blocks import pieces, read, whole
from outlast.world import Cursor, Gap, World

SESSIONS = tuple("abcd")
SOON_S = 30.0

_WRITER = """
import sys, anyio
from outlast.testing.world_contract.blocks import claimed, commit, published
from outlast.worlds.%(world)s import open_%(world)s

async def write(world, claim):
    lease, seq = claim.lease, claim.seq
    while True:
        await published(world, lease, seq, b"%%d.0" %% seq, b"%%d.1" %% seq)
        body = b"%%d of %%s" %% (seq + 1, lease.session.encode())
        [refused] = await world.commit_many([(lease, commit(seq + 1, lease.fence, body, sealed=2))])
        if refused is not None:
            raise refused
        seq += 1
        print(lease.session, seq, flush=True)

async def main():
    async with open_%(world)s(sys.argv[1]) as world:
        claims = [await claimed(world, sys.argv[2], session, dead=sys.argv[3:4]) for session in "abcd"]
        async with anyio.create_task_group() as writers:
            for claim in claims:
                writers.start_soon(write, world, claim)

anyio.run(main)
"""


class Child:
    """A process, and what it says."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self._output = BufferedByteReceiveStream(process.stdout)

    async def line(self) -> str:
        with anyio.fail_after(SOON_S):
            return (await self._output.receive_until(b"\n", 10_000)).decode()

    async def rest(self) -> list[str]:
        """What it still said, whole lines only."""
        text = bytearray()
        try:
            while True:
                text += await self._output.receive()
        except anyio.EndOfStream:
            return text.decode().split("\n")[:-1]


@asynccontextmanager
async def child(program: str, *words: str) -> AsyncGenerator[Child]:
    """Run a program until its end or that of the block."""
    async with await anyio.open_process([sys.executable, "-c", program, *words], stderr=None) as process:
        try:
            yield Child(process)
        finally:
            if process.returncode is None:
                process.kill()


async def killed(world: str, where: str, kill: int, draw: random.Random) -> dict[str, int]:
    """Let a process write to all sessions of the World, kill it at a drawn moment, and tell what it acknowledged."""
    async with child(_WRITER % {"world": world}, where, f"w{kill}", f"w{kill - 1}") as writer:
        lines = [await writer.line()]
        with anyio.move_on_after(draw.uniform(0.0, 0.15)):
            while True:
                lines.append(await writer.line())
        writer.process.send_signal(signal.SIGKILL)
        lines += await writer.rest()
    return {session: int(seq) for session, seq in map(str.split, lines)}


async def kept(world: World, acknowledged: dict[str, int]) -> None:
    """Each commit that was acknowledged is there, whole, once and in its order, and no delta went missing."""
    for session, seq in acknowledged.items():
        commits = await whole(world, session)
        assert len(commits) >= seq
        assert [there.header.seq for there in commits] == list(range(1, len(commits) + 1))
        for there in commits:
            expected = {b"first", b"takeover", b"%d of %s" % (there.header.seq, session.encode())}
            assert there.body in expected
        items = await read(world, session, len(commits))
        assert not any(isinstance(item.what, Gap) for item in items)
        assert pieces(items)[0] == (Cursor(1, 0), b"first")
