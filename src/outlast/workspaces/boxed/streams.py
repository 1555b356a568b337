"""What a job of a box writes until its command ends, whatever of its tree goes on."""

from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable
from functools import partial
from signal import SIGKILL
from typing import Literal, TypeAlias

import anyio

from outlast.groups import task_group
from outlast.sandbox import Job, Left
from outlast.workspace import Ran
from outlast.workspaces.virtual.output import Stream

Put: TypeAlias = Callable[[int, bytes], Awaitable[None]]
"""Takes how many bytes are missing before a piece, and the piece."""


async def until_left(job: Job, out: Put, err: Put) -> Left:
    """Read all that a job writes until its command ends, whatever of its tree goes on."""
    readers = {"stdout": _Reader(out), "stderr": _Reader(err)}
    async with task_group() as tasks:
        tasks.start_soon(readers["stdout"].read, job, "stdout")
        tasks.start_soon(readers["stderr"].read, job, "stderr")
        left = await job.left()
        readers["stdout"].stop_at(left.stdout)
        readers["stderr"].stop_at(left.stderr)
    return left


class _Reader:
    """Of one stream."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._at = 0
        self._end: int | None = None
        self._putting = False
        self._scope = anyio.CancelScope()

    async def read(self, job: Job, name: Literal["stdout", "stderr"]) -> None:
        with self._scope:
            async for at, piece in job.output(name):
                kept = piece if self._end is None else piece[: max(0, self._end - at)]
                self._putting = True
                await self._put(at - self._at, kept)
                self._putting = False
                self._at = at + len(kept)
                if self._end is not None and self._at >= self._end:
                    return

    def stop_at(self, end: int) -> None:
        self._end = end
        if self._at >= end and not self._putting:  # half a piece would be worse than one too many
            self._scope.cancel()


async def heard(job: Job, show: Callable[[str], None], patience_s: float) -> Ran:
    """How a command ends that was begun before."""
    patience = anyio.CancelScope()

    def heard_of(text: str) -> None:
        if patience_s:
            patience.deadline = anyio.current_time() + patience_s
        show(text)

    shown, left = _Shown(heard_of), None
    if patience_s:
        patience.deadline = anyio.current_time() + patience_s
    with patience:
        left = await until_left(job, shown.out, shown.err)
    overdue = left is None
    if left is None:
        await job.signal(SIGKILL)
        shown = _Shown(lambda _: None)
        left = await until_left(job, shown.out, shown.err)
    return shown.ran(left, timed_out=overdue or left.timed_out)


class _Shown:
    """What is kept of a command's output, and shown as it comes."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._streams = (Stream(), Stream())
        self._decoders = tuple(getincrementaldecoder("utf-8")("replace") for _ in self._streams)
        self.out: Put = partial(self._put, 0)
        self.err: Put = partial(self._put, 1)

    async def _put(self, which: int, gap: int, piece: bytes) -> None:
        text = self._decoders[which].decode(piece)
        self._streams[which].cut += gap
        self._streams[which].add(text)
        if text:
            self._show(text)

    def ran(self, left: Left, *, timed_out: bool) -> Ran:
        for stream, decoder in zip(self._streams, self._decoders, strict=True):
            stream.add(decoder.decode(b"", final=True))
        out, err = self._streams
        return Ran(left.status, out.text(), err.text(), out.cut + err.cut, timed_out)
