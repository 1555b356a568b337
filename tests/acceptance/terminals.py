"""A person at a terminal: a pseudo-terminal, what it shows, and the keys that are pressed on it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 40.0
COLUMNS, ROWS = 100, 40

_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
_TAKE_THE_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Screen:
    """What a terminal shows, scrolled-away lines included. It knows the few sequences that our output uses."""

    def __init__(self) -> None:
        self._lines = [""]
        self._row = self._column = 0
        self._rest = ""

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines).rstrip("\n")

    def feed(self, text: str) -> None:
        text = self._rest + text
        at = 0
        self._rest = ""
        while at < len(text):
            if text[at] == "\x1b":
                match = _SEQUENCE.match(text, at)
                if match is None:
                    self._rest = text[at:]  # the other half is still to come
                    return
                self._obey(match[2], match[1])
                at = match.end()
            else:
                self._put(text[at])
                at += 1

    def _put(self, char: str) -> None:
        match char:
            case "\n":
                self._row += 1
                if self._row == len(self._lines):
                    self._lines.append("")
            case "\r":
                self._column = 0
            case _:
                line = self._lines[self._row].ljust(self._column)
                self._lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
                self._column += 1

    def _obey(self, verb: str, argument: str) -> None:
        match verb:
            case "A":
                self._row = max(0, self._row - int(argument or 1))
            case "K":
                keep = 0 if argument == "2" else self._column
                self._lines[self._row] = self._lines[self._row][:keep]
            case "H" if not argument:
                self._row = self._column = 0
            case "J" if not argument:
                self._lines[self._row] = self._lines[self._row][: self._column]
                del self._lines[self._row + 1 :]
            case "m" | "h" | "l":
                pass
            case _:
                raise ValueError(f"the screen does not know {argument}{verb}")


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self.process = process
        self.master = master
        self.screen = Screen()
        self.raw = b""

    @property
    def text(self) -> str:
        return self.screen.text

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait_for(self, what: str, *, times: int = 1, behind: str = "") -> None:
        """Read until the screen shows `what` so many times, counted behind `behind`."""
        end = time.monotonic() + LIMIT_S
        while self.text.partition(behind)[2].count(what) < times if behind else self.text.count(what) < times:
            if not self._read(end):
                raise AssertionError(f"{what!r} never came. The screen shows:\n{self.text}")

    def hang_up(self) -> None:
        """Close the terminal: what runs on it gets SIGHUP."""
        os.close(self.master)
        self.master = -1

    def wait(self) -> int:
        """Read to the end and return the exit status."""
        end = time.monotonic() + LIMIT_S
        while self._read(end):
            pass
        return self.process.wait(max(0.1, end - time.monotonic()))

    def _read(self, end: float) -> bool:
        if not select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False  # the last holder of the other side is gone
        self.raw += data
        self.screen.feed(data.decode(errors="replace"))
        return bool(data)


@contextmanager
def at_terminal(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Generator[Terminal]:
    """`argv` with a terminal as its standard streams; hung up at the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_THE_TERMINAL, *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**env, "TERM": "xterm-256color"},
            cwd=cwd,
            start_new_session=True,
        )
    finally:
        os.close(slave)
    terminal = Terminal(process, master)
    try:
        yield terminal
    finally:
        if terminal.master >= 0:
            os.close(master)
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT_S)
