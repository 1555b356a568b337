"""Bytes from one stream into another and back, unseen."""

import anyio
from anyio.abc import ByteStream

from outlast.groups import task_group
from outlast.workspaces.egress.relay import Quiet
from outlast.workspaces.egress.wire import LOST, PIECE


async def join(one: ByteStream, other: ByteStream, idle_s: float) -> None:
    """Carry bytes both ways until both sides have ended, one is broken, or none has come for `idle_s`."""
    with anyio.CancelScope() as scope:
        quiet = Quiet(idle_s, scope)
        quiet.heard()
        async with task_group() as tasks:
            tasks.start_soon(_pour, one, other, quiet, tasks.cancel_scope)
            tasks.start_soon(_pour, other, one, quiet, tasks.cancel_scope)


async def _pour(source: ByteStream, sink: ByteStream, quiet: Quiet, both: anyio.CancelScope) -> None:
    try:
        while True:
            try:
                piece = await source.receive(PIECE)
            except anyio.EndOfStream:
                await sink.send_eof()
                return
            await sink.send(piece)
            quiet.heard()
    except LOST:
        both.cancel()
