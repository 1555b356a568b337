"""The supervisor of a box, carried into machines that share no files with the worker: in a command line.

Containers, pods and hosted sandboxes differ in how files are put into them, and often it is not possible before they
run; each can be given a command line. So the supervisor is packed as a zip archive (which Python runs as it is), about
20 KB of text, and the first program of a box unpacks it beside its state and becomes it. An image needs Python 3.9 or
newer as `python3`, and nothing else.
"""

import base64
import io
import zipfile
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Final

import anyio
from anyio.abc import ByteStream

PYTHON: Final = ("python3", "-I", "-S")
_PACKAGE: Final = "outlast.workspaces.sandbox"
_PIECE: Final = 65536
_LENGTH: Final = 4
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_BOOT: Final = """
import base64, os, sys
if sys.version_info < (3, 9): sys.exit("outlast needs Python 3.9 or newer here, this is %d.%d" % sys.version_info[:2])
state = sys.argv[1]
os.makedirs(state + "/home", exist_ok=True)
with open(state + "/inside.zip", "wb") as file: file.write(base64.b64decode(sys.argv[2]))
os.execv(sys.executable, [sys.executable, "-I", "-S", state + "/inside.zip", *sys.argv[3:]])
""".strip()
_DIAL: Final = """
import os, socket, sys, threading, time
for _ in range(1500):
    sock = socket.socket(socket.AF_UNIX)
    try: sock.connect(sys.argv[1] + "/socket")
    except OSError: sock.close(); time.sleep(0.02)
    else: break
else: sys.exit("no supervisor listens in " + sys.argv[1])
def exactly(size):
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece: os._exit(0)
        data += piece
    return data
def put(data):
    rest = memoryview(len(data).to_bytes(4, "big") + data)
    while rest: rest = rest[os.write(1, rest):]
def out():
    data = b"-"
    while data:
        data = sock.recv(65536)
        put(data)
threading.Thread(target=out, daemon=True).start()
while True:
    size = int.from_bytes(exactly(4), "big")
    if size: sock.sendall(exactly(size))
    else: sock.shutdown(socket.SHUT_WR)
""".strip()
_FIRST_S: Final = 120.0
"""A box that nobody says hello to ends after so long."""
_ALONE_S: Final = 8.0
"""A box that is to end with its worker ends when no stream of that worker was there for so long."""


def boot_argv(state: str, *, first_s: float = _FIRST_S) -> Sequence[str]:
    """The command that makes a machine a box: the supervisor, which keeps its state in the directory `state` there."""
    where = ("--socket", f"{state}/socket", "--directory", f"{state}/jobs")
    served = ("serve", *where, "--first-s", f"{first_s:g}", "--alone-s", f"{_ALONE_S:g}")
    return [*PYTHON, "-c", _BOOT, state, _packed(), *served]


def dial_argv(state: str) -> Sequence[str]:
    """The command whose stdin and stdout are a stream to the supervisor, for `framed`.

    It waits half a minute for one to listen, and ends when its stdin does.
    """
    return [*PYTHON, "-c", _DIAL, state]


class Framed(ByteStream):
    """A stream to the supervisor over the stdin and stdout of `dial_argv`.

    What carries them ends as a whole: over an exec no half can be closed. So the bytes go in frames (four bytes of
    length, big-endian, then so many), and an empty one says that no more comes from there.
    """

    def __init__(self, carried: ByteStream) -> None:
        self._carried = carried
        self._came = bytearray()
        self._due = 0
        self._ended = False

    async def receive(self, max_bytes: int = _PIECE) -> bytes:
        while not self._due:
            if self._ended:
                raise anyio.EndOfStream
            while len(self._came) < _LENGTH:
                self._came += await self._more()
            self._due = int.from_bytes(self._came[:_LENGTH], "big")
            self._ended = not self._due
            del self._came[:_LENGTH]
        if not self._came:
            self._came += await self._more()
        piece = bytes(self._came[: min(max_bytes, self._due)])
        del self._came[: len(piece)]
        self._due -= len(piece)
        return piece

    async def _more(self) -> bytes:
        try:
            return await self._carried.receive()
        except anyio.EndOfStream:
            raise anyio.BrokenResourceError from None

    async def send(self, item: bytes) -> None:
        for start in range(0, len(item), _PIECE):
            piece = item[start : start + _PIECE]
            await self._carried.send(len(piece).to_bytes(_LENGTH, "big") + piece)

    async def send_eof(self) -> None:
        await self._carried.send(bytes(_LENGTH))

    async def aclose(self) -> None:
        await self._carried.aclose()


@cache
def _packed() -> str:
    """The archive, as base 64: the same text for the same code."""
    packed = io.BytesIO()
    inside = resources.files(_PACKAGE) / "inside"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(inside.iterdir(), key=lambda found: found.name):
            if PurePosixPath(file.name).suffix == ".py":
                archive.writestr(zipfile.ZipInfo(file.name, _EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return base64.b64encode(packed.getvalue()).decode()
