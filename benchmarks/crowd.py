"""`python -m benchmarks.crowd PORT TOKEN EACH PATH…`: so many watchers of each path, in one process.

It reads as `EventSource` does, with as little as possible between the kernel and the count. Events carry the moment at
which they were written, on the clock that all processes of the machine share. It says `ready` when every watcher has
its first event; then for each line it is told, one line of JSON: how many events came since, and how late they were.
"""

import json
import os
import re
import selectors
import socket
import sys
import time

from benchmarks.frame import median, percentile

AT = re.compile(rb"@(\d+\.\d+)@")


class Watcher:
    """One connection."""

    def __init__(self, port: int, token: str, path: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        asks = (
            f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n"
            f"authorization: Bearer {token}\r\n\r\n"
        )
        self.socket.sendall(asks.encode())
        self.socket.setblocking(False)  # noqa: FBT003 - the library's own signature
        self.begun = False

    def read(self, waits_s: list[float]) -> int:
        """Count what came."""
        data = self.socket.recv(65_536)
        now_s = time.monotonic()
        if not data:
            raise RuntimeError("the server hung up")
        waits_s += [now_s - float(at) for at in AT.findall(data)]
        count = data.count(b"\nid: ") + data.startswith(b"id: ")
        self.begun = self.begun or count > 0
        return count


class Watching:
    """All of them, and what they have seen since somebody last asked."""

    def __init__(self, watchers: list[Watcher]) -> None:
        self._watchers = watchers
        self._waits_s: list[float] = []
        self._events = 0
        self._said = False
        self._selector = selectors.DefaultSelector()
        for watcher in watchers:
            self._selector.register(watcher.socket, selectors.EVENT_READ, watcher)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)

    def look(self) -> bool:
        """Read what there is. False at the end of the input."""
        for key, _ in self._selector.select(1.0):
            if isinstance(key.data, Watcher):
                self._events += key.data.read(self._waits_s)
            elif not os.read(sys.stdin.fileno(), 1024):
                return False
            else:
                self._tell()
        if not self._said and all(watcher.begun for watcher in self._watchers):
            self._said = True
            print("ready", flush=True)
        return True

    def _tell(self) -> None:
        waits_s = self._waits_s or [0.0]
        p50_ms, p99_ms = median(waits_s) * 1e3, percentile(waits_s, 0.99) * 1e3
        print(json.dumps({"events": self._events, "p50_ms": p50_ms, "p99_ms": p99_ms}), flush=True)
        self._events, self._waits_s = 0, []


def main(port: int, token: str, each: int, paths: list[str]) -> None:
    """Watch until the end of the input."""
    watching = Watching([Watcher(port, token, path) for path in paths for _ in range(each)])
    while watching.look():
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
