"""The network of a box: its ways, and nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from anyio.abc import ByteStream

from outlast.sandbox import Spec, Way
from outlast.testing.sandbox_contract.blocks import held, ran, same
from outlast.testing.sandbox_contract.case import Case, Ground, promise

_PORT: Final = 4471
_ASK: Final = """python3 -c '
import socket, sys
s = socket.create_connection(("127.0.0.1", {port}), 10)
s.sendall(b"x" * {size}); s.shutdown(socket.SHUT_WR)
got = b""
while True:
    piece = s.recv(65536)
    if not piece: break
    got += piece
sys.stdout.write(got[:20].decode() + " " + str(len(got)))
'"""
_REACH: Final = """python3 -c '
import socket, sys
s = socket.socket(); s.settimeout(2)
try: s.connect(("{host}", {port}))
except OSError as e: print("refused")
else: print("reached")
'"""


@asynccontextmanager
async def _echo(spec: Spec, word: bytes) -> AsyncGenerator[Spec]:
    """The spec with a way to a server of this process, which says `word` and what it read."""

    async def serve(client: ByteStream) -> None:
        async with client:
            read = bytearray()
            async for piece in client:
                read += piece
            await client.send(word + read)

    with TemporaryDirectory() as directory:
        path = Path(directory, "socket")
        async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            yield replace(spec, ways=(Way(_PORT, path),))
            tasks.cancel_scope.cancel()


@promise("network")
async def a_way_leads_to_its_socket(ground: Ground) -> None:
    async with _echo(ground.spec, b"hello ") as spec, held(ground, spec=spec) as box:
        for size in (0, 10, 3_000_000):
            wanted = (b"hello " + b"x" * size)[:20].decode()
            same(await ran(box, _ASK.format(port=_PORT, size=size)), (0, f"{wanted} {size + 6}"))


@promise("network")
async def nothing_but_the_ways_leads_out(ground: Ground) -> None:
    async with _echo(ground.spec, b"") as spec, held(ground, spec=spec) as box:
        same(await ran(box, _REACH.format(host="127.0.0.1", port=_PORT)), (0, "reached\n"))
        for host, port in (("127.0.0.1", 22), ("169.254.169.254", 80), ("1.1.1.1", 53), ("10.0.0.1", 443)):
            same(await ran(box, _REACH.format(host=host, port=port)), (0, "refused\n"))


@promise("network", "outlives")
async def a_way_leads_to_the_newest_holder(ground: Ground) -> None:
    async with (
        _echo(ground.spec, b"first ") as one,
        held(ground, 1, idle_s=60, spec=one) as old,
        _echo(ground.spec, b"second ") as two,
    ):
        same(await ran(old, _ASK.format(port=_PORT, size=0)), (0, "first  6"))
        async with held(ground, 2, idle_s=60, spec=two) as new:
            for _ in range(5):
                same(await ran(new, _ASK.format(port=_PORT, size=0)), (0, "second  7"))


@promise("network")
async def many_connections_share_a_way(ground: Ground) -> None:
    line = " & ".join([_ASK.format(port=_PORT, size=1000) + " >/dev/null"] * 6) + " & wait; echo all"
    async with _echo(ground.spec, b"") as spec, held(ground, spec=spec) as box:
        same(await ran(box, line), (0, "all\n"))


CASES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Case))
