"""The same with outlast: functions that come and go, a server, and a browser."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import httpx
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.cli.agents import built_in
from outlast.cli.demo.pricing.bench import Bench
from outlast.cli.demo.pricing.bill import OUTLAST, Run
from outlast.cli.demo.pricing.door import Served
from outlast.cli.demo.pricing.forge import PullRequest
from outlast.cli.demo.pricing.shop import MODEL, SIGNAL, prompt
from outlast.cli.demo.pricing.watcher import Watcher
from outlast.cli.machine import machine_id
from outlast.cli.text import answer_text, arguments_text, short
from outlast.cli.work import worker_argv
from outlast.clock import Clock
from outlast.engine.places import fresh_home
from outlast.records.events import Event
from outlast.session import Session
from outlast.watch import Screen
from outlast.workspaces.local import local
from outlast.world import World

NAME: Final = "pricing"
"""Of the session."""
LIFE: Final = "100s"
"""How long a function may live."""
LIMIT_S: Final = 180.0
LOOK_S: Final = 0.1
_LINE: Final = 1 << 20


@dataclass
class Functions:
    """What a platform does: it starts a function when the session is ready, and no other while one runs."""

    session: Session
    environ: Mapping[str, str]
    bench: Bench
    clock: Clock
    count: int = 0
    ran: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """From when to when, of each."""
    _victim: int = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            head = await self.session.head()
            if head.is_ready(self.clock.now()):
                await self._one()
            await anyio.sleep(LOOK_S)

    def kill(self) -> None:
        """The time of the function that runs is over."""
        if self._victim:
            with suppress(ProcessLookupError):
                os.kill(self._victim, signal.SIGKILL)

    async def _one(self) -> None:
        self.count += 1
        begun = anyio.current_time()
        with (self.bench.directory / "functions.log").open("ab") as log:
            process = await anyio.open_process(
                worker_argv(
                    "--session", NAME, "--until", LIFE, "--once", "--name", f"function-{self.count}", "--json"
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(self.environ),
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            with suppress(anyio.EndOfStream, anyio.IncompleteRead):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", _LINE)
                self._victim = int(msgspec.json.decode(line)["pid"])
            await process.wait()
        finally:
            self._victim = 0
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.send_signal(signal.SIGINT)
                    await process.wait()
                await process.aclose()
            self.ran.append((begun, anyio.current_time()))


@dataclass
class Durable:
    """The run with outlast."""

    bench: Bench
    run: Run
    say: Callable[[str], None]
    clock: Clock
    world: World
    served: Served
    environ: Mapping[str, str]
    """Of the functions."""
    functions: int = 0
    idle_s: float = 0.0
    watcher: Watcher | None = None
    _names: dict[int, str] = field(default_factory=dict[int, str])
    _pulled: set[str] = field(default_factory=set[str])
    _ci: list[float] = field(default_factory=list[float])
    """When CI began, and when it was over."""

    async def play(self) -> None:
        """Carry the work out, to its end."""
        data = Path(self.environ["OUTLAST_DATA_DIR"])
        session = await Session.open(
            self.world,
            NAME,
            agent=built_in("claude-code"),
            workspace=local(self.bench.shop, host=machine_id(data)),
            home=fresh_home(data, NAME),
            settings={"model": MODEL},
        )
        with anyio.move_on_after(LIMIT_S) as limit:
            await self._play(session)
        if limit.cancelled_caught:
            self.run.result = f"it was not over after {LIMIT_S:.0f} s"
            return
        outcome = await session.result(1)
        self.run.done, self.run.result = outcome.status == "done", str(outcome)
        await self._compare(session)

    async def _play(self, session: Session) -> None:
        served = self.served
        base, headers = f"{served.url}/v1/sessions/{NAME}", {"authorization": f"Bearer {served.token}"}
        self.watcher = watcher = Watcher(f"{base}/events", served.token, self._show)
        functions = Functions(session, self.environ, self.bench, self.clock)
        async with (
            httpx.AsyncClient(headers=headers, timeout=30) as client,
            anyio.create_task_group() as tasks,
        ):

            async def told(one: PullRequest) -> None:
                """The forge's webhook."""
                self._ci.append(anyio.current_time())
                self.say(f"✉ the forge: CI of #{one.number} has ended: {one.checks}")
                body = {
                    "name": SIGNAL,
                    "value": {"pull_request": one.number, "checks": one.checks},
                    "id": "ci-1",
                }
                (await client.post(f"{base}/signals", json=body)).raise_for_status()

            self.bench.repository.told = told
            body = {"text": prompt(OUTLAST), "id": "pricing-1"}
            (await client.post(f"{base}/turns", json=body)).raise_for_status()
            tasks.start_soon(functions.run)
            tasks.start_soon(self._cut_off, functions)
            await watcher.watch()
            tasks.cancel_scope.cancel()
        self.functions = functions.count
        self.idle_s = _idle(self._ci, functions.ran)

    async def _cut_off(self, functions: Functions) -> None:
        await self.bench.repository.landed.wait()
        self._ci.append(anyio.current_time())
        self._pull()
        self.say("✖ the time of the function is over: SIGKILL")
        functions.kill()

    async def _compare(self, session: Session) -> None:
        """Whether the browser shows what the log says."""
        assert self.watcher is not None
        whole = Screen()
        async for event in session.follow():
            whole.apply(event)
            if event.kind == "turn.settled":
                break
        self.watcher.watched.same = whole.lines() == self.watcher.screen.lines()

    def _show(self, event: Event) -> None:
        line = self._line(event)
        if line:
            self.say(line)
        prose = event.kind == "call.text" and event.offset > 40
        waits = event.kind == "attempt.ended" and event.status == "waiting"
        for moment, now in (("prose", prose), ("wait", waits)):
            if now and moment not in self._pulled:
                self._pulled.add(moment)
                self._pull()

    def _pull(self) -> None:
        if self.watcher is not None:
            self.say("⚡ the browser's cable is pulled")
            self.watcher.pull()

    def _line(self, event: Event) -> str:
        match event.kind:
            case "attempt.opened":
                return f"✚ {str(event.facts.get('worker', '')).rpartition('-')[0]} reads the log and goes on"
            case "call.opened":
                self._names[event.call] = event.name
                tool = event.facts.get("kind") != "model"
                return f"◌ {event.name} {short(arguments_text(event.payload), 44)}" if tool else ""
            case "call.settled":
                return f"● {short(text)}" if (text := answer_text(event)) else ""
            case "call.verdict":
                return f"? {self._names.get(event.call, '')}: verify says {event.status.replace('_', ' ')}"
            case "attempt.ended" if event.status == "waiting":
                return "… it waits for CI, and no function runs"
            case _:
                return ""


def _idle(ci: list[float], ran: list[tuple[float, float]]) -> float:
    """Seconds of CI in which no function ran."""
    if len(ci) < 2:
        return 0.0
    begun, ended = ci[0], ci[1]
    busy = sum(max(0.0, min(until, ended) - max(since, begun)) for since, until in ran)
    return round(ended - begun - busy, 1)
