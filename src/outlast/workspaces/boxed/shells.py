"""Shells that a box lends to what runs in it: commands of a harness as jobs (`outlast.workspace.LendsShell`).

In the box stands a shell of ours (`shim`), which asks here over a way of its own. Frames: a letter, four bytes of
length (big-endian), content.

| from the shell | |
|---|---|
| `?` | 1 if its two streams are one; its directory; how many arguments; they; the environment. Zero bytes between |
| `i` | what it read; empty: that was all |
| `!` | the number of a signal that it got |

| to the shell | |
|---|---|
| `x` | be the real shell |
| `i` | more may be read |
| `o`, `e` | output, to either stream |
| `s` | the exit status: the last frame |

Whoever asks is of the box, and not believed: what it asks for is done in the box and nowhere else, at most once for
each call that waits for a shell, and what it sends is bounded. A connection that ends before its job ends that.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from os import fsdecode
from pathlib import Path
from signal import SIGKILL
from socket import socket
from typing import Final

import anyio
from anyio.abc import ByteStream

from outlast.errors import BoxError, Fenced, OutlastError, WorkspaceError
from outlast.groups import task_group
from outlast.sandbox import Box, Job, JobAsk, Left, Way
from outlast.workspace import Lender, Lent, Ran
from outlast.workspaces.boxed import shim
from outlast.workspaces.boxed.streams import heard, until_left
from outlast.workspaces.egress.listening import bound
from outlast.workspaces.sandbox.inside.wire import PIECE
from outlast.workspaces.unix import UnixStream

BASH: Final = "/bin/bash"
PORT: Final = shim.PORT
PLACES: Final = ("/run/outlast/bin/bash", "/tmp/.outlast/bin/bash")  # noqa: S108 - of the box
"""Where the shell is put, in the first that takes it. Harnesses look at its name."""
QUESTION_LIMIT: Final = 2 * 1024 * 1024
"""Bytes of arguments and environment: what Linux takes for a program's, and no more."""
INPUT_LIMIT: Final = 64 * 1024
QUESTION_S: Final = 10.0
ENDING_S: Final = 10.0
CONNECTIONS: Final = 64
_SHEBANG: Final = 200
_SIGNALS: Final = range(1, 32)
_AGAIN_S: Final = 0.1
_HEAD: Final = 5
_FIXED: Final = 3
_DIGITS: Final = 6
_ENDED: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
GAP: Final = "\n[… {gap:,} bytes of output were not kept here …]\n"


class Nonsense(Exception):
    """What came is no frame, or not what may come now."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a shell says of itself."""

    merged: bool
    cwd: str
    words: Sequence[str]
    env: dict[str, str]


class BoxShells:
    """Those of one held box."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._lender: Lender | None = None
        self._over: set[str] = set()
        """Commands whose call has an outcome."""
        self._ended: set[str] = set()
        self.path = ""
        """See `outlast.workspace.LendsShell.shell`."""

    async def install(self) -> None:
        """Put the shell into the box. Where that cannot be, there is none."""
        with suppress(BoxError):
            await self._box.loose()  # a box of an older outlast knows nothing of it
            text = await self._first_line() + _source()
            for place in PLACES:
                with suppress(BoxError):
                    await self._box.write(place, text, mode=0o755)
                    self.path = place
                    return

    async def _first_line(self) -> bytes:
        ours = _python()
        there = len(ours) < _SHEBANG and " " not in ours and await self._box.stat(ours) is not None
        return f"#!{ours} -IS\n".encode() if there else b"#!/usr/bin/env -S python3 -IS\n"

    def lend(self, lender: Lender | None) -> None:
        self._lender = lender

    async def serve(self, listener: socket) -> None:
        """Answer shells until cancelled."""
        room = anyio.Semaphore(CONNECTIONS)
        async with task_group() as tasks:
            while True:
                await room.acquire()
                try:
                    connected, _ = await asyncio.get_running_loop().sock_accept(listener)
                except OSError:  # no descriptor is free: it may be in a moment
                    room.release()
                    await anyio.sleep(_AGAIN_S)
                    continue
                tasks.start_soon(self._one, connected, room)

    async def _one(self, connected: socket, room: anyio.Semaphore) -> None:
        try:
            async with await UnixStream.on(connected) as stream:
                with suppress(Nonsense, TimeoutError, OutlastError, OSError, *_ENDED):
                    await self.answer(stream)
        finally:
            room.release()

    async def answer(self, stream: ByteStream) -> None:
        """Answer one shell.

        Raises:
            Nonsense, TimeoutError: what it says is no question.
            WorkspaceError, Fenced: the box does not hear us any more.
            Of anyio's: the shell has gone.
        """
        peer = Peer(stream)
        with anyio.fail_after(QUESTION_S):
            kind, data = await peer.receive(QUESTION_LIMIT)
            question = read_question(kind, data)
        lender = self._lender
        lent = None if lender is None else lender.claim(question.words)
        if lender is None or lent is None:
            await peer.farewell(b"x")
            return
        try:
            left = await carry(await self._box.begin(ask_of(question, lent)), peer)
        except BaseException:
            if not lender.outlasts():
                await self._kill(lent.job)
            raise
        finally:
            self._ended.add(lent.job)
        await peer.farewell(b"s", b"%d" % left.status)
        if lent.job in self._over:
            await self.give_back(lent.job)

    async def _kill(self, name: str) -> None:
        with anyio.move_on_after(ENDING_S, shield=True), suppress(WorkspaceError, Fenced):
            job = await self._box.find(name)
            if job is not None:
                await job.signal(SIGKILL)
                await job.wait()

    async def take_up(
        self, name: str, show: Callable[[str], None], outlasts: Callable[[], bool], patience_s: float
    ) -> Ran | None:
        """See `outlast.workspace.LendsShell`."""
        job = await self._box.find(name)
        if job is None:
            return None
        with suppress(BoxError):
            await job.close_stdin()  # who would have written it is gone
        try:
            ran = await heard(job, show, patience_s)
        except BaseException:
            if not outlasts():
                await self._kill(name)
            raise
        self._ended.add(name)
        return ran

    async def give_back(self, name: str) -> None:
        """See `outlast.workspace.LendsShell`."""
        self._over.add(name)
        await self._box.tie(name, kept=name not in self._ended)

    async def end_others(self, names: Collection[str]) -> None:
        """See `outlast.workspace.LendsShell`."""
        if self.path:
            for name in await self._box.loose():
                if not name.startswith(tuple(names)):
                    await self._box.drop(name)


def _source() -> bytes:
    return Path(shim.__file__).read_bytes()


def _python() -> str:
    """The Python that runs us, without a virtual environment around it: a box of this machine shows it."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


class Peer:
    """A shell that asks, frame by frame."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._sending = anyio.Lock()

    async def send(self, kind: bytes, data: bytes = b"") -> None:
        async with self._sending:
            await self._stream.send(kind + len(data).to_bytes(4, "big") + data)

    async def farewell(self, kind: bytes, data: bytes = b"") -> None:
        """The last frame. It hangs up: who hung up on what it still says would take that frame from it."""
        with anyio.move_on_after(ENDING_S), suppress(*_ENDED):
            await self.send(kind, data)
            while True:
                await self._stream.receive()

    async def receive(self, limit: int) -> tuple[bytes, bytes]:
        """The next frame.

        Raises:
            Nonsense: it is larger than `limit`.
            anyio.EndOfStream, anyio.BrokenResourceError: there is none.
        """
        while len(self._buffer) < _HEAD or len(self._buffer) < _HEAD + self._size(limit):
            self._buffer += await self._stream.receive()
        end = _HEAD + self._size(limit)
        kind, data = bytes(self._buffer[:1]), bytes(self._buffer[_HEAD:end])
        del self._buffer[:end]
        return kind, data

    def _size(self, limit: int) -> int:
        size = int.from_bytes(self._buffer[1:_HEAD], "big")
        if size > limit:
            raise Nonsense(f"{size} bytes")
        return size


def read_question(kind: bytes, data: bytes) -> Question:
    """What a shell asks.

    Raises:
        Nonsense
    """
    parts = data.split(b"\0")
    if kind != b"?" or len(parts) < _FIXED or not parts[2].isdigit() or len(parts[2]) > _DIGITS:
        raise Nonsense(f"{kind!r}")
    end = _FIXED + int(parts[2])
    if len(parts) < end:
        raise Nonsense("fewer arguments than it says")
    pairs = (one.partition(b"=") for one in parts[end:])
    env = {fsdecode(name): fsdecode(value) for name, is_pair, value in pairs if name and is_pair}
    return Question(parts[0] == b"1", fsdecode(parts[1]), [fsdecode(one) for one in parts[_FIXED:end]], env)


def ask_of(question: Question, lent: Lent) -> JobAsk:
    """The job that a shell becomes."""
    return JobAsk(
        lent.job,
        [BASH, *question.words],
        question.cwd,
        question.env,
        stdin=True,
        timeout_s=lent.timeout_s,
        merged=question.merged,
        paced=True,
    )


async def carry(job: Job, peer: Peer) -> Left:
    """Carry between a job and its shell until its command has ended.

    Raises as `BoxShells.answer` does: the shell is gone, or the box.
    """
    async with task_group() as tasks:
        tasks.start_soon(_hear, job, peer)

        async def put(kind: bytes, gap: int, piece: bytes) -> None:
            if gap:
                await peer.send(kind, GAP.format(gap=gap).encode())
            for at in range(0, len(piece), PIECE):
                await peer.send(kind, piece[at : at + PIECE])

        left = await until_left(job, partial(put, b"o"), partial(put, b"e"))
        tasks.cancel_scope.cancel()
    return left


async def _hear(job: Job, peer: Peer) -> None:
    """Take what the shell has for its job, until the shell is gone, which raises."""
    await peer.send(b"i")
    given: asyncio.Queue[bytes] = asyncio.Queue(1)
    async with task_group() as tasks:
        tasks.start_soon(_give, given, job, peer)
        while True:
            kind, data = await peer.receive(INPUT_LIMIT)
            if kind == b"!":
                await job.signal(_signal(data))
            elif kind == b"i":
                _hand_on(given, data)
            else:
                raise Nonsense(f"{kind!r}")


def _signal(data: bytes) -> int:
    number = int(data) if data.isdigit() and len(data) <= _DIGITS else 0
    if number not in _SIGNALS:
        raise Nonsense(f"the signal {data!r}")
    return number


def _hand_on(given: asyncio.Queue[bytes], data: bytes) -> None:
    try:
        given.put_nowait(data)
    except asyncio.QueueFull:
        raise Nonsense("more input than it was asked for") from None


async def _give(given: asyncio.Queue[bytes], job: Job, peer: Peer) -> None:
    """Give a job what its shell has read, a piece at a time."""
    with suppress(BoxError):  # it reads no more
        while data := await given.get():
            await job.write(data)
            await peer.send(b"i")
        await job.close_stdin()


@asynccontextmanager
async def lent_shells(directory: Path) -> AsyncGenerator[tuple[Way, Callable[[Box], Awaitable[BoxShells]]]]:
    """The way by which shells of a box ask, and what begins to answer them once it is held; until the context ends."""
    with bound(directory, "shells") as (path, listener):
        async with task_group() as tasks:

            async def begin(box: Box) -> BoxShells:
                shells = BoxShells(box)
                await shells.install()
                tasks.start_soon(shells.serve, listener)
                return shells

            try:
                yield Way(PORT, path), begin
            finally:
                tasks.cancel_scope.cancel()
