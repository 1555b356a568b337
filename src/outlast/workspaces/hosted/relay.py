"""Streams to the supervisor, for machines where a program can only be run to its end. Runs inside; Python 3.9 alone.

    relay STATE serve            hold streams to the socket of the supervisor, until it is gone
    relay STATE call REQUEST     ask the one that serves, and print what it says
    relay STATE end              kill the supervisor and every process below it

What a request is: a map as JSON, in base 64. What is answered: the same, on one line.

    {"op": "open"}                                    {"stream": n}
    {"op": "put", "stream", "at", "data"}             {}; bytes that came before are left out
    {"op": "get", "stream", "at", "wait_s"}           {"data", "end"}; bytes before `at` are forgotten
    {"op": "eof", "stream"}                           {}; no more is put
    {"op": "close", "stream"}                         {}

Each may be asked again: `at` says from which byte of the stream on.
"""

import base64
import json
import os
import socket
import sys
import threading
import time

LARGEST = 1 << 20
FORGET_S = 30.0
"""A stream of which nobody asked for so long is closed."""
_FULL = 8 << 20
_PIECE = 1 << 16


class Stream:
    """A stream to the supervisor."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.news = threading.Condition()
        self.asked_at = time.monotonic()
        self._putting = threading.Lock()
        self._put = 0
        self._got = bytearray()
        self._first = 0
        self._end = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = self.socket.recv(_PIECE)
            except OSError:
                data = b""
            with self.news:
                self._got += data
                self._end = not data
                self.news.notify_all()
                if self._end:
                    return
                while len(self._got) > _FULL:
                    self.news.wait()

    def put(self, at: int, data: bytes) -> None:
        """Send `data`, byte `at` of the stream and on."""
        with self._putting:
            if at > self._put:
                raise ValueError("a piece is missing")
            fresh = data[self._put - at :]
            self.socket.sendall(fresh)
            self._put += len(fresh)

    def get(self, at: int, wait_s: float) -> "tuple[bytes, bool]":
        """What came from byte `at` on, and whether that is the end; empty when nothing came in time."""
        end_s = time.monotonic() + wait_s
        with self.news:
            if at > self._first:
                del self._got[: at - self._first]
                self._first = at
                self.news.notify_all()
            while not self._got and not self._end:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    return b"", False
                self.news.wait(left_s)
            piece = bytes(self._got[:LARGEST])
            return piece, self._end and len(piece) == len(self._got)


class Relay:
    """All streams."""

    def __init__(self, state: str) -> None:
        self._path = state + "/socket"
        self._streams: dict[int, Stream] = {}  # not looked at when it runs
        self._count = 0

    def answer(self, asked: "dict[str, object]") -> "dict[str, object]":
        """What is said to a request."""
        if asked["op"] == "open":
            stream = Stream(self._path)
            self._count += 1
            self._streams[self._count] = stream
            return {"stream": self._count}
        number = int(str(asked["stream"]))
        if asked["op"] == "close":
            gone = self._streams.pop(number, None)
            if gone is not None:
                _end(gone.socket)
            return {}
        if number not in self._streams:
            return {"data": "", "end": True}
        stream = self._streams[number]
        stream.asked_at = time.monotonic()
        at = int(str(asked.get("at", 0)))
        if asked["op"] == "eof":
            stream.socket.shutdown(socket.SHUT_WR)
            return {}
        if asked["op"] == "put":
            stream.put(at, base64.b64decode(str(asked["data"])))
            return {}
        data, end = stream.get(at, float(str(asked["wait_s"])))
        return {"data": base64.b64encode(data).decode(), "end": end}

    def forget(self) -> bool:
        """Close streams that nobody asks for. Returns whether the supervisor is still there."""
        for number, stream in list(self._streams.items()):
            if time.monotonic() - stream.asked_at > FORGET_S:
                self.answer({"op": "close", "stream": number})
        probe = socket.socket(socket.AF_UNIX)
        try:
            probe.connect(self._path)
        except OSError:
            return False
        finally:
            probe.close()
        return True


def serve(state: str) -> None:
    """Until the supervisor is gone."""
    _wait_for(state + "/socket")
    relay = Relay(state)
    listener = socket.socket(socket.AF_UNIX)
    path = state + "/relay"
    if os.path.exists(path):  # noqa: PTH110 - loads in no time
        os.unlink(path)  # noqa: PTH108
    os.umask(0o177)
    listener.bind(path)
    listener.listen(128)
    listener.settimeout(1.0)
    while True:
        try:
            caller, _ = listener.accept()
        except socket.timeout:  # noqa: UP041 - Python 3.9 has another
            if not relay.forget():
                os._exit(0)
            continue
        caller.settimeout(None)
        threading.Thread(target=_one, args=(relay, caller), daemon=True).start()


def _one(relay: Relay, caller: socket.socket) -> None:
    with caller, caller.makefile("rwb") as file:
        try:
            said = relay.answer(json.loads(base64.b64decode(file.readline())))
        except (OSError, ValueError, KeyError) as wrong:
            said = {"error": "%s: %s" % (type(wrong).__name__, wrong)}  # noqa: UP031 - as short as can be
        file.write(base64.b64encode(json.dumps(said).encode()) + b"\n")


def call(state: str, request: str) -> None:
    """Ask the one that serves, and print what it says."""
    _wait_for(state + "/relay")
    asking = socket.socket(socket.AF_UNIX)
    asking.connect(state + "/relay")
    with asking, asking.makefile("rwb") as file:
        file.write(request.encode() + b"\n")
        file.flush()
        sys.stdout.write(file.readline().decode())


def _wait_for(path: str) -> None:
    for _ in range(1500):
        probe = socket.socket(socket.AF_UNIX)
        try:
            probe.connect(path)
        except OSError:
            time.sleep(0.02)
        else:
            return
        finally:
            probe.close()
    sys.exit("nothing listens at " + path)


def _end(ended: socket.socket) -> None:
    try:
        ended.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was not connected any more
    finally:
        ended.close()


def end(state: str) -> None:
    """Kill the supervisor and every process below it, where the machine does not end with it."""
    parents: dict[int, int] = {}
    supervisors: set[int] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open("/proc/" + name + "/stat", "rb") as file:  # noqa: PTH123
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            with open("/proc/" + name + "/cmdline", "rb") as file:  # noqa: PTH123
                if (state + "/inside.zip").encode() in file.read().split(b"\0"):
                    supervisors.add(int(name))
        except OSError:
            continue  # it ended meanwhile
    doomed = set(supervisors)
    while True:
        below = {pid for pid, parent in parents.items() if parent in doomed} - doomed
        if not below:
            break
        doomed |= below
    for pid in sorted(doomed, key=lambda pid: pid not in supervisors):
        try:
            os.kill(pid, 9)
        except OSError:
            continue


if __name__ == "__main__":
    if sys.argv[2] == "serve":
        serve(sys.argv[1])
    elif sys.argv[2] == "end":
        end(sys.argv[1])
    else:
        call(sys.argv[1], sys.argv[3])
