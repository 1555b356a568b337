"""The shell's own process; `outlast.workspaces.virtual.shell` starts it.

It reads asks from its standard input and answers on its standard output, until that ends. Whatever a command does to
this process, it is only this process: it holds no credentials, no open files but the two, and may write none.
"""

import resource
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from outlast.workspaces.virtual.interpreter import Interpreter
from outlast.workspaces.virtual.wire import Answer, Ask, Run

STACK_BYTES: Final = 256 * 1024 * 1024
"""The interpreter descends as deep as what it is given is nested; deeper than this, the process ends."""


class Line:
    """Where answers go, from whichever thread."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()

    def write(self, answer: Answer) -> None:
        """Write an answer, whole."""
        text = self._encoder.encode(answer) + b"\n"
        with self._lock:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()


def main(arguments: list[str]) -> int:
    """Serve until standard input ends.

    Args:
        arguments: the program's; the first of its own is what it may take, in bytes.
    """
    threading.stack_size(STACK_BYTES)
    served = threading.Thread(target=_serve, args=(int(arguments[1]),), name="shell", daemon=True)
    served.start()
    served.join()
    return 0


def _serve(memory_bytes: int) -> None:
    line = Line()
    interpreter = Interpreter(line.write)
    decoder: msgspec.json.Decoder[Ask] = msgspec.json.Decoder(Ask)
    _limit(memory_bytes)
    for text in sys.stdin.buffer:
        ask = decoder.decode(text)
        if isinstance(ask, Run):
            _let_cpu(ask.cpu_s)
        for answer in interpreter.answer(ask):
            line.write(answer)


def _limit(memory_bytes: int) -> None:
    """What this process may take from here on, beside the stack that it has."""
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    with suppress(OSError):  # no such file, and no such limit, on macOS
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits.append((resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes))
    for what, value in limits:
        hard = resource.getrlimit(what)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (most, most))


def _let_cpu(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
