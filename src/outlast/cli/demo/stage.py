"""The processes of the demo: a scripted model, two workers, and the hand that kills them."""

import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from outlast.cli.demo.props import BANK, LEDGER, SPARED
from outlast.cli.work import worker_argv
from outlast.errors import HarnessError


@dataclass
class Player:
    """One worker process, under its supervisor."""

    name: str
    process: "subprocess.Popen[bytes]"
    pid: int
    """Of the worker itself."""
    worker: str
    """Its id."""


@dataclass
class Stage:
    """Keeps two workers alive, for one session and no other."""

    directory: Path
    cast: str
    """Who plays, as MODULE:AGENT."""
    session: str
    environ: Mapping[str, str]
    """Of the workers; it names the World, whose address may hold a password."""
    players: dict[str, Player] = field(default_factory=dict[str, Player])
    dead: list[Player] = field(default_factory=list[Player])
    _count: int = 0

    @property
    def ledger(self) -> Path:
        """The file that stands for the outside world."""
        return self.directory / LEDGER

    async def enter(self) -> Player:
        """Start one more worker and wait until it is ready."""
        self._count += 1
        name = f"worker-{self._count}"
        errors = (self.directory / f"{name}.log").open("wb")
        with errors:
            process = subprocess.Popen(  # noqa: ASYNC220 - its first line is waited for in a thread
                worker_argv(self.cast, "--session", self.session, "--name", name, "--json"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(self.environ),
                start_new_session=True,
            )
        said = await anyio.to_thread.run_sync(_first_line, process)
        if not said:
            text = (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]
            raise HarnessError(harness="a demo worker", reason=f"it did not start: {text}")
        told = msgspec.json.decode(said)
        player = Player(name, process, int(told["pid"]), str(told["worker"]))
        self.players[name] = player
        self._mark()
        return player

    def name_of(self, worker: str) -> str:
        """What the demo calls the worker with this id."""
        known = [*self.players.values(), *self.dead]
        return next((player.name for player in known if player.worker == worker), worker)

    def kill(self, name: str) -> float:
        """SIGKILL a worker. Returns when, on the clock that never jumps."""
        player = self.players.pop(name)
        when = time.monotonic()
        os.kill(player.pid, signal.SIGKILL)
        self.dead.append(player)
        self._mark()
        return when

    def spare(self) -> None:
        """Let the players know that nobody will be killed any more."""
        (self.directory / SPARED).touch()

    def _mark(self) -> None:
        """Let the actors know whether another worker stands by."""
        bank = self.directory / BANK
        if len(self.players) > 1:
            bank.touch()
        else:
            bank.unlink(missing_ok=True)

    def leave(self) -> None:
        """End every worker that is left."""
        for player in self.players.values():
            player.process.send_signal(signal.SIGINT)
        for player in [*self.players.values(), *self.dead]:
            try:
                player.process.wait(10)
            except subprocess.TimeoutExpired:
                player.process.kill()
                player.process.wait()


def _first_line(process: "subprocess.Popen[bytes]") -> bytes:
    return b"" if process.stdout is None else process.stdout.readline()


@asynccontextmanager
async def staged(stage: Stage, workers: int = 2) -> AsyncGenerator[Stage]:
    """`workers` workers, ended when the context ends."""
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(workers):
                tasks.start_soon(stage.enter)
        yield stage
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(stage.leave)
