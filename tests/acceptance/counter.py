"""Where the command line is used: a place of its own, with a World, and bells that the agent rings."""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.terminals import LIMIT_S, Terminal, at_terminal

ROOT = Path(__file__).parents[2]
TILL = "tests.acceptance.till:agent"
BROKEN = "tests.acceptance.till:broken"


@dataclass
class Ring:
    """A tool that waits for an answer."""

    pid: int
    """Of the worker that runs it."""
    _connection: socket.socket

    def answer(self, text: str) -> None:
        self._connection.sendall(f"{text}\n".encode())


class Bell:
    """A socket that a tool connects to."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(LIMIT_S)
        self._listener.bind(self.path)
        self._listener.listen()
        self._connections: list[socket.socket] = []

    def rung(self) -> Ring:
        """Wait until the tool is there."""
        connection, _ = self._listener.accept()
        connection.settimeout(LIMIT_S)
        self._connections.append(connection)
        with connection.makefile("rb") as lines:
            return Ring(int(lines.readline()), connection)

    def close(self) -> None:
        for open_one in (self._listener, *self._connections):
            open_one.close()


@dataclass
class Counter:
    """A directory with a World of its own, and commands in it."""

    directory: Path
    bell: Bell
    environ: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def shop(self) -> Path:
        return self.directory / "shop"

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "outlast.cli", *words]

    def outlast(
        self,
        *words: str,
        status: int | Sequence[int] = 0,
        given: str | None = None,
        limit_s: float = LIMIT_S,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, and see that it ends with `status`."""
        done = subprocess.run(
            self.argv(*words),
            env=self.environ,
            cwd=self.shop,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        wanted = [status] if isinstance(status, int) else status
        assert done.returncode in wanted, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def json(self, *words: str, status: int = 0) -> list[Any]:
        """What a command answers in JSON, line by line."""
        return [
            json.loads(line) for line in self.outlast(*words, "--json", status=status).stdout.splitlines()
        ]

    @contextmanager
    def started(self, *words: str) -> Generator["subprocess.Popen[str]"]:
        """A command that runs beside the test."""
        process = subprocess.Popen(
            self.argv(*words),
            env=self.environ,
            cwd=self.shop,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def terminal(self, *words: str) -> Generator[Terminal]:
        """A command at a terminal."""
        with at_terminal(self.argv(*words), env=self.environ, cwd=self.shop) as terminal:
            yield terminal


@contextmanager
def opened() -> Generator[Counter]:
    """A counter in a directory with a short name, since the path of a bell may have a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="ol-") as name:
        directory = Path(name)
        bell = Bell(directory / "bell")
        counter = Counter(directory, bell)
        counter.shop.mkdir()
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("OUTLAST_", "ANTHROPIC_", "OTEL_"))
        }
        counter.environ = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "OUTLAST_DATA_DIR": str(directory / "data"),
            "OUTLAST_WORLD": f"sqlite:{directory / 'world.db'}",
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "NO_COLOR": "1",
        }
        try:
            yield counter
        finally:
            bell.close()


def script(*steps: dict[str, Any]) -> str:
    """A prompt for the scripted harness."""
    return json.dumps(list(steps))


def says(text: str) -> dict[str, Any]:
    """The model says this."""
    return {"do": "model", "text": text}


def rings(counter: Counter) -> dict[str, Any]:
    """The tool rings the bell and waits."""
    return {"do": "tool", "name": "ring", "arguments": {"bell": counter.bell.path}}


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that need not be ours."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], LIMIT_S)[0], f"process {pid} lives on"
    finally:
        os.close(descriptor)
