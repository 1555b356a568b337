"""Unix sockets: long paths, full queues, and reads that are cancelled when something comes."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from outlast.workspaces.unix import addressed, connect

LONG = "long" * 60


@contextmanager
def listening(path: Path, backlog: int = 8) -> Generator[socket.socket]:
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, addressed(path) as address:
        listener.bind(address)
        listener.listen(backlog)
        yield listener


@pytest.mark.parametrize("name", ["short", LONG])
async def test_a_socket_is_reached_however_long_its_path_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "s.sock"
    with listening(path) as listener:
        assert path.is_socket()
        async with await connect(path) as stream:
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(b"here")
                assert await stream.receive() == b"here"


@pytest.mark.parametrize("name", ["short", LONG])
async def test_nobody_who_listens_is_an_error_that_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        await connect(tmp_path / name / "s.sock")
    with listening(tmp_path / name / "s.sock"):
        pass
    with pytest.raises(ConnectionRefusedError):
        await connect(tmp_path / name / "s.sock")


async def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with listening(path, backlog=0) as listener:
        arrived: list[bytes] = []
        async with await connect(path) as first, anyio.create_task_group() as tasks:

            async def second() -> None:
                async with await connect(path) as stream:
                    arrived.append(await stream.receive())

            tasks.start_soon(second)
            with anyio.move_on_after(0.1) as waited:
                await first.receive()
            assert waited.cancelled_caught
            for _ in range(2):
                with (await asyncio.get_running_loop().sock_accept(_unblocked(listener)))[0] as accepted:
                    accepted.sendall(b"turn")
        assert arrived == [b"turn"]


async def test_what_is_cancelled_while_something_comes_is_no_error_of_the_loop(tmp_path: Path) -> None:
    loop, told = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: told.append(context))
    path = tmp_path / "s.sock"
    with listening(path) as listener:
        for _ in range(50):
            async with await connect(path) as stream, anyio.create_task_group() as tasks:
                with listener.accept()[0] as accepted:
                    tasks.start_soon(stream.receive)
                    await anyio.lowlevel.checkpoint()
                    accepted.sendall(b"x")
                    tasks.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint()
    loop.set_exception_handler(None)
    assert told == []


def _unblocked(listener: socket.socket) -> socket.socket:
    listener.setblocking(False)  # noqa: FBT003 - the library's own signature
    return listener
