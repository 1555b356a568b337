"""Who holds a box, and the streams over which holders ask."""

from __future__ import annotations

from outlast.workspaces.sandbox.inside import wire
from outlast.workspaces.sandbox.inside.loop import GONE, READ, WRITE, Loop, now_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any, Protocol

    class Answers(Protocol):
        """Whoever answers what comes over a stream."""

        loop: Loop

        def take(self, stream: Stream, asked: dict[str, Any]) -> None: ...

        def carry(self, stream: Stream, asked: dict[str, Any], first: bytes) -> None: ...

        def closed(self, stream: Stream) -> None: ...


_AT_ONCE = 256 * 1024
_FULL = 4 * 1024 * 1024


class Holding:
    """Who holds the box, and until when."""

    def __init__(self, first_s: float) -> None:
        self.fence = 0
        self.client = ""
        self.held = False
        self.lived = False  # before its holder came
        self.idle_s = 0.0
        self.until_s = now_s() + first_s
        self.env: dict[str, str] = {}
        self.cwd = "/"
        self.cap = 64 * 1024 * 1024
        self.limits: dict[str, int] = {}
        self.noted = ""  # for whoever holds it next

    def beat(self, for_s: float) -> None:
        self.until_s = now_s() + for_s

    def take(self, asked: dict[str, Any]) -> None:
        """A holder says hello."""
        if asked["client"] != self.client:
            self.lived = self.held
        self.fence = asked["fence"]
        self.client = asked["client"]
        self.held = True
        self.idle_s = asked["idle_ms"] / 1000
        self.env = asked["env"]
        self.cwd = asked["cwd"]
        self.cap = asked["output_bytes"]
        self.limits = asked["limits"]
        self.beat(asked["for_ms"] / 1000)


class Stream:
    """A stream to a worker."""

    def __init__(self, sock: _socket.socket, answers: Answers) -> None:
        self.sock = sock
        self.fence = -1
        self.client = ""
        self._answers = answers
        self._loop = answers.loop
        self._unpacker = wire.Unpacker()
        self._unsent = bytearray()
        sock.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._loop.watch(sock.fileno(), READ, self._ready)

    def answer(self, message: dict[str, object]) -> None:
        if self.sock.fileno() >= 0:
            self._unsent += wire.pack(message)
            self._send()

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            self._loop.forget(self.sock.fileno())
            self.sock.close()
            self._answers.closed(self)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._send()
        if events & (READ | GONE):
            self._receive()

    def _receive(self) -> None:
        try:
            data = self.sock.recv(_AT_ONCE)
            if not data:
                self.close()
                return
            self._unpacker.feed(data)
            while self.sock.fileno() >= 0:
                message = self._unpacker.next()
                if message is None:
                    return
                if message.get("op") == "carry":
                    self._loop.forget(self.sock.fileno())
                    self._answers.closed(self)
                    self._answers.carry(self, message, self._unpacker.rest())
                    return
                self._answers.take(self, message)
        except BlockingIOError:
            return
        except (OSError, wire.WireError):
            self.close()

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self.sock.send(self._unsent)]
        except BlockingIOError:
            # Who does not read is asked nothing more of: its memory is not ours.
            self._loop.watch(
                self.sock.fileno(), WRITE if len(self._unsent) > _FULL else READ | WRITE, self._ready
            )
            return
        except OSError:
            self.close()
            return
        self._loop.watch(self.sock.fileno(), READ, self._ready)
