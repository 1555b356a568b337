"""What is kept of what a command writes."""

from collections import deque
from collections.abc import Callable

from outlast.workspace import OUTPUT_LIMIT


class Stream:
    """The first and the last half of `limit` bytes of a stream, which is cut between characters."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        self._half = limit // 2
        self._head: list[bytes] = []
        self._head_left = self._half
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.cut = 0
        """Bytes that are not kept."""
        self.at_start = True
        """A line begins here."""

    def add(self, text: str) -> None:
        """The stream goes on."""
        if text:
            self.at_start = text.endswith("\n")
        data = text.encode("utf-8", "replace")
        if self._head_left:
            first = data[: self._head_left]
            self._head.append(first)
            self._head_left -= len(first)
            data = data[len(first) :]
        if not data:
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while (over := self._tail_bytes - self._half) > 0:
            oldest = self._tail.popleft()
            dropped = min(over, len(oldest))
            if dropped < len(oldest):
                self._tail.appendleft(oldest[dropped:])
            self._tail_bytes -= dropped
            self.cut += dropped

    def text(self) -> str:
        """What is kept; where something is missing a line says how much."""
        head, tail = b"".join(self._head), b"".join(self._tail)
        if not self.cut:
            return (head + tail).decode("utf-8", "replace")
        begins, ends = head.decode("utf-8", "ignore"), tail.decode("utf-8", "ignore")
        return f"{begins}\n[… {self.cut:,} bytes are left out here …]\n{ends}"


class Output:
    """Both streams of a command."""

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self.out = Stream()
        self.err = Stream()
        self._show = show

    def add(self, out: str, err: str) -> None:
        """The command wrote this."""
        self.out.add(out)
        self.err.add(err)
        if self._show is not None and (out or err):
            self._show(out + err)

    def note(self, text: str) -> None:
        """A line of ours, behind what the command wrote."""
        self.err.add(f"{text}\n" if self.err.at_start else f"\n{text}\n")

    @property
    def cut(self) -> int:
        return self.out.cut + self.err.cut
