"""The command line of the supervisor inside.

    serve (--fd N | --socket PATH) --directory DIR --first-s S [--alone-s S]
                            supervise; ends as `docs/internals/boxes.md` says
    dial --socket PATH      carry standard input and output to one that serves

Exit status of `serve`: 0 when nobody held the box for longer than it was to be kept; 2 for a wrong command line.
"""

# ruff: noqa: PTH103, PTH104, PTH108
# pathlib would double the start-up time.

from __future__ import annotations

import _socket
import os
import sys

from outlast.workspaces.sandbox.inside import trees
from outlast.workspaces.sandbox.inside.loop import GONE, READ, Loop
from outlast.workspaces.sandbox.inside.serving import Server

_USAGE = (
    "usage: inside serve (--fd N | --socket PATH) --directory DIR --first-s S [--alone-s S]"
    " | inside dial --socket PATH"
)
_BACKLOG = 128
_AT_ONCE = 128 * 1024


def main(words: list[str]) -> int:
    """Run the command line `words`. Returns the exit status."""
    given = dict(zip(words[1::2], words[2::2]))
    try:
        if words[:1] == ["serve"]:
            return _serve(given)
        if words[:1] == ["dial"]:
            return _dial(given["--socket"])
    except (KeyError, ValueError) as wrong:
        os.write(2, f"{wrong!r}\n".encode())
    os.write(2, f"{_USAGE}\n".encode())
    return 2


def _serve(given: dict[str, str]) -> int:
    trees.become_supervisor()
    os.umask(0o022)
    directory = given["--directory"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    listener = _socket.socket(fileno=int(given["--fd"])) if "--fd" in given else _listen(given["--socket"])
    os.set_inheritable(listener.fileno(), False)  # noqa: FBT003 - the library's own signature
    loop = Loop()
    server = Server(loop, listener, directory, float(given["--first-s"]))
    server.alone_s = float(given.get("--alone-s", "0"))
    loop.run()
    if os.getpid() != 1:  # else the kernel ends the whole namespace with us
        for job in server.jobs.names().values():
            trees.send([*trees.descendants(job.keeper), job.keeper], trees.SIGKILL)
    return 0


def _listen(path: str) -> _socket.socket:
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    new = f"{path}.new"
    if os.path.lexists(new):
        os.unlink(new)
    old = os.umask(0o177)
    listener.bind(new)
    os.umask(old)
    listener.listen(_BACKLOG)
    os.rename(new, path)  # who finds it is answered
    return listener


def _dial(path: str) -> int:
    """Carry between a socket and standard input and output, until the supervisor closes."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except OSError as refused:
        os.write(2, f"no supervisor listens at {path}: {refused.strerror}\n".encode())
        return 1
    loop = Loop()

    def send(_events: int) -> None:
        data = os.read(0, _AT_ONCE)
        if data:
            sock.sendall(data)
        else:
            loop.forget(0)
            sock.shutdown(_socket.SHUT_WR)

    def receive(_events: int) -> None:
        data = sock.recv(_AT_ONCE)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]
        loop.over = not data

    loop.watch(0, READ, send)
    loop.watch(sock.fileno(), READ | GONE, receive)
    try:
        loop.run()
    except OSError:
        return 1  # one side is gone
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
