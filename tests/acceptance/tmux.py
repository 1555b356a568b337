"""A person at a terminal that shows what full-screen programs draw: tmux."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from outlast.ids import new_id

LIMIT_S = 60.0
COLUMNS, ROWS = 120, 60
AGAIN_S = 2.0
ENDED = "ended with"
"""What the terminal says, with the status, when its program has ended."""


class Tmux:
    """One program in a terminal of a tmux server of its own."""

    def __init__(self) -> None:
        self._server = new_id("outlast")

    def _tmux(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._server, "-f", "/dev/null", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.stdout

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        """Start a program; when it has ended the terminal says `ended with` its status, and stays."""
        command = f"{shlex.join(argv)}; echo {ENDED} $?; exec sleep 600"
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._tmux("new-session", "-d", *size, "-c", str(cwd), "sh", "-c", command, env=env)

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-S", "-500")

    def wait_for(self, text: str) -> None:
        """Wait until the screen shows `text`; a program that has ended will not show it any more."""
        self.until(lambda: text in self.screen or ENDED in self.screen, f"{text!r} never came")
        assert text in self.screen, f"{text!r} never came. The screen shows:\n{self.screen}"

    def until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait for a condition on what the program does."""
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end, f"{otherwise}. The screen shows:\n{self.screen}"
            time.sleep(0.1)

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def enter(self, text: str, taken: Callable[[], bool]) -> None:
        """Type a line, and press Enter until the program has taken it: one that has just started may not listen yet."""
        self._tmux("send-keys", "-l", text)
        self.wait_for(text)
        end = time.monotonic() + LIMIT_S
        while not taken():
            assert time.monotonic() < end, f"{text!r} was not taken. The screen shows:\n{self.screen}"
            self.press("Enter")
            again = time.monotonic() + AGAIN_S
            while not taken() and time.monotonic() < again:
                time.sleep(0.05)

    def end(self) -> None:
        self._tmux("kill-server")


@contextmanager
def at_tmux(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Generator[Tmux]:
    """`argv` at a terminal; the terminal is gone at the end."""
    if shutil.which("tmux") is None:
        raise AssertionError("tmux is missing. Install it with: apt-get install tmux (or brew install tmux)")
    tmux = Tmux()
    tmux.start(argv, env={**os.environ, **env, "TERM": "xterm-256color"}, cwd=cwd)
    try:
        yield tmux
    finally:
        tmux.end()
