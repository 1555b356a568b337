"""Ports that a program opens on the loopback of its box, reached from the worker."""

from contextlib import suppress
from signal import SIGKILL
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

from outlast.errors import BoxError
from outlast.ids import new_id
from outlast.sandbox import Box, Job, JobAsk

BASH: Final = "/bin/bash"
_PUMP: Final = 'exec 3<>"/dev/tcp/127.0.0.1/$0" || exit 1; cat <&3 & exec cat >&3'
"""A connection in the box, carried over the streams of a job: of what a box has, no more is needed than a shell."""
_ENDING_S: Final = 5.0


async def expose(box: Box, port: int, tasks: TaskGroup) -> int:
    """Listen on a port of the worker's loopback for what leads to this one of the box; until `tasks` end.

    Whoever is on this machine reaches it, as they would a program outside of a box.
    """
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)

    async def carry(stream: SocketStream) -> None:
        async with stream:
            await _carry(box, port, stream)

    async def serve() -> None:
        async with listener:
            await listener.serve(carry)

    tasks.start_soon(serve)
    return int(listener.extra(SocketAttribute.local_port))  # noqa: S610 - no database


async def _carry(box: Box, port: int, stream: SocketStream) -> None:
    ask = JobAsk(new_id("port"), [BASH, "-c", _PUMP, str(port)], tied=True, stdin=True)
    try:
        job = await box.begin(ask)
    except BoxError:
        return  # whoever asked finds the connection closed
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_inwards, job, stream, tasks)
            with suppress(BoxError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for _, piece in job.output("stdout"):
                    await stream.send(piece)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(_ENDING_S, shield=True), suppress(BoxError):
            await job.signal(SIGKILL)
            await box.drop(ask.job)


async def _inwards(job: Job, stream: SocketStream, tasks: TaskGroup) -> None:
    with suppress(BoxError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await job.write(await stream.receive())
    tasks.cancel_scope.cancel()
