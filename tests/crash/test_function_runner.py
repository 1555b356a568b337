"""Where a process gets seconds to live and is frozen between requests, a turn of a minute ends, and nothing twice."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import anyio
import httpx
import pytest

from outlast.opening import open_world
from outlast.session import Session
from outlast.testing.models import Script, ScriptedModels, Step
from tests.crash.function import NAME, TOKEN, agent

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]
START_LIMIT_S = 30.0
MARGIN_S = 1.0
"""Between what a function is told and when it is killed."""


@dataclass
class Platform:
    """Gives each request a process, which it freezes afterwards, and kills whatever takes too long."""

    environ: Mapping[str, str]
    limit_s: float
    reuse: bool
    """Whether a frozen process is thawed for the next request; else each request gets a new one."""
    starts_s: list[float] = field(default_factory=list[float])
    overran: int = 0
    _process: "subprocess.Popen[bytes] | None" = None
    _port: int = 0

    async def invoke(self, session: str) -> bool:
        """One request. Returns whether there is more to do."""
        await self._thaw()
        assert self._process is not None
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{self._port}/outlast/advance"
        try:
            async with httpx.AsyncClient(timeout=self.limit_s) as client:
                answer = await client.post(url, json={"session": session}, headers=headers)
        except httpx.ReadTimeout:
            self.overran += 1
            self.end()
            return True
        assert answer.status_code == 200, answer.text
        if self.reuse:
            os.kill(self._process.pid, signal.SIGSTOP)
        else:
            self.end()
        return bool(answer.json()["again"])

    async def _thaw(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)
            return
        began = time.monotonic()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process = subprocess.Popen(  # noqa: ASYNC220 - it is answered by its port
            [sys.executable, "-m", "tests.crash.function", str(self._port)],
            env={**os.environ, **self.environ},
        )
        with anyio.fail_after(START_LIMIT_S):
            while not self._answers():  # noqa: ASYNC110 - a port tells nobody
                await anyio.sleep(0.02)
        self.starts_s.append(time.monotonic() - began)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def end(self) -> None:
        """SIGKILL: the platform asks nobody."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@asynccontextmanager
async def platform(directory: Path, models: str, *, limit_s: float, reuse: bool) -> AsyncGenerator[Platform]:
    environ = {
        "OUTLAST_WORLD": f"sqlite:{directory / 'world.db'}",
        "OUTLAST_DATA_DIR": str(directory / "data"),
        "LEDGER": str(directory / "ledger"),
        "MODELS": models,
        "LIMIT_S": str(limit_s - MARGIN_S),
    }
    found = Platform(environ, limit_s, reuse)
    try:
        yield found
    finally:
        found.end()


@pytest.mark.parametrize(
    ("reuse", "steps", "limit_s"),
    [
        (True, 24, 3.5),
        pytest.param(False, 24, 3.5, marks=pytest.mark.full),
        # In as many requests as 800 steps have at 30 s each: longer ones show nothing more.
        pytest.param(True, 250, 10.0, marks=pytest.mark.full),
    ],
    ids=["frozen", "killed", "long"],
)
async def test_a_turn_outlives_the_functions_that_carry_it(
    tmp_path: Path,
    reuse: bool,  # noqa: FBT001 - by the parameters above
    steps: int,
    limit_s: float,
) -> None:
    script = Script(conversations={f"step{n}": (Step(text=f"do {n}"),) for n in range(steps)})
    async with (
        ScriptedModels.serve(script) as models,
        open_world(f"sqlite:{tmp_path / 'world.db'}") as world,
        platform(tmp_path, models.base_url, limit_s=limit_s, reuse=reuse) as runner,
    ):
        session = await Session.open(world, "s", agent=agent)
        await session.send(str(steps))
        requests = 1
        while await runner.invoke("s"):
            requests += 1
            assert requests < 10 * steps
        outcome = await session.result(1)
        assert outcome.value == [[f"do {number}", number] for number in range(steps)]
        asked = Counter(one.conversation for one in models.requests if one.kind == "model")
    assert requests > 2
    assert runner.overran == 0, "it is through in time, always"
    assert asked == {f"step{number}": 1 for number in range(steps)}, "no finished call is sent again"
    notes = [line.split(" ", 1) for line in (tmp_path / "ledger").read_text().splitlines()]
    assert Counter(said for _, said in notes) == {
        f"{word} {n}": 1 for word in ("begin", "done") for n in range(steps)
    }
    gaps = sorted(_gaps([(float(at), said) for at, said in notes]))
    slowest_start = max(runner.starts_s) if not reuse else 0.0
    # A gap between two steps is the wait of the reserve, the hand-over, the next request and, in a new one, its start.
    assert gaps[int(0.95 * len(gaps))] < limit_s / 4 + 1.0 + slowest_start


def _gaps(notes: list[tuple[float, str]]) -> list[float]:
    """Seconds from the end of each step to the beginning of the next."""
    return [
        later - earlier
        for (earlier, said), (later, next_said) in pairwise(notes)
        if said.startswith("done") and next_said.startswith("begin")
    ]


def test_the_agent_of_the_function_is_the_one_that_is_named() -> None:
    assert agent.name == NAME
