"""One thread that waits for descriptors and for times."""

from __future__ import annotations

import select
import time
from _heapq import heappop, heappush

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
GONE = select.EPOLLHUP | select.EPOLLERR
_LONGEST_S = 1.0


def now_s() -> float:
    """Seconds since boot, suspension included: the clock of every deadline here."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def accept(listener: _socket.socket) -> int:
    """The descriptor of a connection that came; -1: it went away."""
    try:
        fd, _ = listener._accept()  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] - it has no other
    except OSError:
        return -1
    return int(fd)  # pyright: ignore[reportUnknownArgumentType]


class Loop:
    """Calls back when a descriptor is ready, and when a time has come."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], object]] = {}
        self._times: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.over = False

    def watch(self, fd: int, events: int, handler: Callable[[int], object]) -> None:
        """Call `handler` with what is ready of `events`, until `forget`."""
        if fd in self._handlers:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._handlers[fd] = handler

    def forget(self, fd: int) -> None:
        """No longer. Before the descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        """Call once, when `now_s` has come to `when_s`."""
        self._count += 1
        heappush(self._times, (when_s, self._count, call))

    def run(self) -> None:
        """Until `over`. Wakes once a second at least: the time-out of a poll does not count a suspension."""
        while not self.over:
            timeout = max(0.0, min(_LONGEST_S, self._times[0][0] - now_s())) if self._times else _LONGEST_S
            for fd, events in self._poll.poll(timeout):
                handler = self._handlers.get(fd)
                if handler is not None:  # else an earlier one of this round closed it
                    handler(events)
            self._call_due()

    def _call_due(self) -> None:
        now = now_s()
        while self._times and self._times[0][0] <= now:
            heappop(self._times)[2]()
