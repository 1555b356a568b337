"""Ways out of a box: ports of its loopback, each connection carried over a stream of whoever holds the box.

A connection that comes waits, a while, until the holder fetches it: with a stream of its own, which carries bytes from
then on. So the box has no socket of the outside, and an older holder carries nothing once a newer one came.
"""

from __future__ import annotations

import _socket

from outlast.workspaces.sandbox.inside.jobs import Refusal
from outlast.workspaces.sandbox.inside.loop import GONE, READ, WRITE, Loop, accept, now_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BACKLOG = 128
_MOST_WAITING = 256
_PATIENCE_S = 30.0
_AT_ONCE = 128 * 1024


class Ways:
    """The ports, and what waits at them."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._ports: dict[int, _socket.socket] = {}
        self._waiting: dict[int, tuple[int, int]] = {}  # number -> (port, descriptor)
        self._told: set[int] = set()
        self._count = 0
        self.on_came: Callable[[], None] = _nothing

    def open(self, ports: Sequence[int]) -> None:
        """Listen at these and no others.

        Raises:
            Refusal: a port is taken.
        """
        for port in set(self._ports) - set(ports):
            listener = self._ports.pop(port)
            self._loop.forget(listener.fileno())
            listener.close()
        for port in ports:
            if port not in self._ports:
                self._ports[port] = self._listen(port)

    def next(self) -> dict[str, object] | None:
        """A connection that nobody fetches yet."""
        for number, (port, _) in self._waiting.items():
            if number not in self._told:
                self._told.add(number)
                return {"carry": number, "port": port}
        return None

    def tell_again(self) -> None:
        """Whoever was told of those that wait is not the holder any more."""
        self._told.clear()

    def carry(self, number: int, stream: _socket.socket, first: bytes) -> bool:
        """Join a stream and the connection `number`; `first` is what came on the stream already. False: it is gone."""
        found = self._waiting.pop(number, None)
        self._told.discard(number)
        if found is None:
            return False
        inner = _socket.socket(fileno=found[1])
        _Half.join(self._loop, stream, inner, first)
        return True

    def _listen(self, port: int) -> _socket.socket:
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(_BACKLOG)
        except OSError as taken:
            listener.close()
            raise Refusal("refused", f"port {port} cannot be listened at in it: {taken.strerror}") from taken
        listener.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._loop.watch(listener.fileno(), READ, lambda _events: self._accept(port))
        return listener

    def _accept(self, port: int) -> None:
        fd = accept(self._ports[port])
        if fd < 0:
            return
        if len(self._waiting) >= _MOST_WAITING:
            _socket.close(fd)
            return
        self._count += 1
        number = self._count
        self._waiting[number] = (port, fd)
        self._loop.at(now_s() + _PATIENCE_S, lambda: self._give_up(number))
        self.on_came()

    def _give_up(self, number: int) -> None:
        found = self._waiting.pop(number, None)
        self._told.discard(number)
        if found is not None:
            _socket.close(found[1])


class _Half:
    """One end of a joined pair: what is read here is written to the other."""

    def __init__(self, loop: Loop, sock: _socket.socket) -> None:
        self._loop = loop
        self.sock = sock
        self.other = self
        self.unwritten = bytearray()
        self.read_all = False  # no more comes from here
        self.shut = False  # and no more is written to here

    @classmethod
    def join(cls, loop: Loop, one: _socket.socket, other: _socket.socket, first: bytes) -> None:
        """Carry between two sockets until both directions have ended."""
        left, right = cls(loop, one), cls(loop, other)
        left.other, right.other = right, left
        right.unwritten += first
        for half in (left, right):
            half.sock.setblocking(False)  # noqa: FBT003 - the library's own signature
            half.arm()

    def arm(self) -> None:
        if self.sock.fileno() < 0:
            return
        events = 0
        if not self.read_all and not self.other.unwritten:
            events |= READ
        if self.unwritten:
            events |= WRITE
        if events:
            self._loop.watch(self.sock.fileno(), events, self._ready)
        else:  # an end that is told while nothing can be done about it would be told again and again
            self._loop.forget(self.sock.fileno())

    def _ready(self, events: int) -> None:
        try:
            if events & WRITE and self.unwritten:
                del self.unwritten[: self.sock.send(self.unwritten)]
            if events & (READ | GONE) and not self.read_all and not self.other.unwritten:
                self._take()
            self.pass_end()
            self.other.pass_end()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            self.other.close()
            return
        if self.shut and self.other.shut:
            self.close()
            self.other.close()
            return
        self.arm()
        self.other.arm()

    def _take(self) -> None:
        data = self.sock.recv(_AT_ONCE)
        if data:
            self.other.unwritten += data
        else:
            self.read_all = True

    def pass_end(self) -> None:
        if self.other.read_all and not self.unwritten and not self.shut:
            self.shut = True
            self.sock.shutdown(_socket.SHUT_WR)

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            self._loop.forget(self.sock.fileno())
            self.sock.close()


def _nothing() -> None:
    return
