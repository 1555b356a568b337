"""The shell's own process: `python -m outlast.workspaces.virtual.child MEMORY_BYTES`.

It reads asks from its standard input and answers on its standard output, until that ends. Whatever a command does to
this process, it is only this process: it holds no credentials, no open files but the two, and may write none.
"""

import resource
import signal
import sys
import threading
from contextlib import suppress
from typing import Final

import msgspec

from outlast.workspaces.virtual.interpreter import Interpreter
from outlast.workspaces.virtual.wire import Answer, Ask

STACK_BYTES: Final = 256 * 1024 * 1024
"""The interpreter descends as deep as what it is given is nested; deeper than this, the process ends."""
_BASE_BYTES: Final = 1024 * 1024 * 1024
"""Address space of Python, the libraries and their threads, of which little is ever touched."""


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
    """Serve until standard input ends."""
    _limit(int(arguments[0]))
    threading.stack_size(STACK_BYTES)
    served = threading.Thread(target=_serve, name="shell", daemon=True)
    served.start()
    served.join()
    return 0


def _limit(memory: int) -> None:
    for what, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_AS, memory + STACK_BYTES + _BASE_BYTES),
    ):
        with suppress(OSError, ValueError):  # macOS does not limit the address space
            resource.setrlimit(what, (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _serve() -> None:
    line = Line()
    interpreter = Interpreter(line.write)
    decoder: msgspec.json.Decoder[Ask] = msgspec.json.Decoder(Ask)
    for text in sys.stdin.buffer:
        for answer in interpreter.answer(decoder.decode(text)):
            line.write(answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
