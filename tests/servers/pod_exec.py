"""The streams of a program in a pod over a websocket: the channels that `kubectl exec` speaks."""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from tests.servers import containers


async def channels(websocket: WebSocket, program: containers.Running, *, may_close: bool) -> None:
    """Until the program has ended, or who asked for it has gone. `may_close`: the protocol has a word for that."""
    feeding = asyncio.get_running_loop().create_task(_into(websocket, program.stdin, may_close=may_close))
    try:
        with suppress(RuntimeError, WebSocketDisconnect):
            await asyncio.gather(_out(websocket, program.stdout, 1), _out(websocket, program.stderr, 2))
            await websocket.send_bytes(b"\3" + json.dumps(_ended(await program.ended)).encode())
            await websocket.close()
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding


def _ended(status: int) -> Mapping[str, Any]:
    if not status:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code {status}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(status)}]},
    }


async def _into(websocket: WebSocket, stdin: int, *, may_close: bool) -> None:
    open_ = True
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message["bytes"]
            if data[:1] == b"\0" and open_:
                writing = (containers.THREADS, containers.write_all, stdin, data[1:])
                await asyncio.get_running_loop().run_in_executor(*writing)
            elif data == b"\xff\0" and may_close and open_:
                open_ = False
                os.close(stdin)
    except OSError:
        return
    finally:
        if open_:
            os.close(stdin)


async def _out(websocket: WebSocket, fd: int, channel: int) -> None:
    loop = asyncio.get_running_loop()
    try:
        while data := await loop.run_in_executor(containers.THREADS, os.read, fd, 32768):
            await websocket.send_bytes(bytes([channel]) + data)
    finally:
        os.close(fd)
