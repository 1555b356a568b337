"""What the measurements of each harness share: its agent, what the model says, and turns with and without us."""

import importlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from benchmarks.bare import ALONE, Spot, Watch, run_alone
from benchmarks.bare.program import Taken
from benchmarks.frame import Bench, Row
from benchmarks.harness_agent import HARNESS
from benchmarks.saying import hold, slow_look
from benchmarks.workers import Crew, crew
from outlast.adapter import Agent
from outlast.clock import SystemClock
from outlast.session import Session
from outlast.settings import read_settings
from outlast.testing.adapter_contract import Subject
from outlast.testing.models import RequestRecord, Script, SpawnedModels, Step, ToolUse
from outlast.testing.models.spawned import spawn_models
from outlast.workspaces.local import local
from outlast.world import World

NOTES: Final = "notes.txt"
LINE: Final = "The third line of the notes says nothing new, and neither does the fourth.\n"
STEPS: Final = 20
"""Tool calls of a turn."""
PACE_S: Final = 0.5
"""How long the model takes to its first word where it does not answer at once."""
EARLY, LATE = "Beforehand", "Thereupon"
"""Words that the model says before and after its one tool call, and nobody else."""
WORDS: Final = "I say some words more, so that they come one after the other as a provider sends them."
GAP_S: Final = 0.01
CLOCK: Final = "date +%s%N"
_STAMP: Final = re.compile(rb"(?<!\d)1\d{18}(?!\d)")


def subject_named(harness: str) -> Subject:
    """How a harness is spoken of under the adapter contract."""
    module = importlib.import_module(f"tests.harnesses.{harness.replace('-', '_')}")
    return cast("Subject", module.SUBJECT)


def script_of(subject: Subject) -> Script:
    """Everything that the model says in these measurements."""
    look, held = subject.application("look"), subject.application("hold")
    return Script(
        conversations={
            "hello": (Step(text="Hello."),),
            "clock": (
                Step(text=f"{EARLY} {WORDS}", tools=(_shell(subject, CLOCK),), gap_s=GAP_S),
                Step(text=f"{LATE} {WORDS}", gap_s=GAP_S),
            ),
            "reads": (*_reads(subject, STEPS), Step(text="That is all.")),
            "slow-reads": (*_reads(subject, STEPS, PACE_S), Step(text="That is all.", delay_s=PACE_S)),
            "looks": (Step(text="I look again.", tools=(look,)),) * 12,
            "held": (*_reads(subject, 3), Step(text="I wait.", tools=(held,))),
        }
    )


def _reads(subject: Subject, count: int, delay_s: float = 0.0) -> list[Step]:
    return [
        Step(text="I read the notes once more.", tools=(_shell(subject, f"cat {NOTES}"),), delay_s=delay_s)
    ] * count


def _shell(subject: Subject, command: str) -> ToolUse:
    use = subject.shell(command)
    assert use is not None, f"{subject.name} has no shell"
    return use


def prompt(conversation: str) -> str:
    """What a user says in order to hear a conversation of the script."""
    return f"Please do it. [script:{conversation}]"


@dataclass
class Desk:
    """One harness, a scripted model, and workers whose model it is."""

    bench: Bench
    harness: str
    agent: Agent
    world: World
    models: SpawnedModels
    workers: Crew
    _alone: int = 0

    async def alone(self, conversation: str, words: Sequence[str] = ()) -> Taken:
        """A turn of the program without us, in a fresh home."""
        self._alone += 1
        place = self.bench.directory / f"alone-{self._alone}"
        home, cwd = place / "home", place / "work"
        home.mkdir(parents=True)
        _work(cwd)
        spot = Spot(home, self.bench.directory / "user", cwd, self.models.base_url)
        return await run_alone(ALONE[self.harness], spot, prompt(conversation), words)

    async def open(self, name: str) -> Session:
        """A new session with a directory of its own."""
        return await Session.open(self.world, name, agent=self.agent, workspace=local(self._cwd(name)))

    def _cwd(self, name: str) -> Path:
        cwd = self.bench.directory / "sessions" / name
        _work(cwd)
        return cwd

    async def ours(self, name: str, conversation: str, words: Sequence[str] = ()) -> Taken:
        """A turn of a new session, as somebody who watches it sees it.

        Raises:
            RuntimeError: the turn failed.
        """
        watch, clock, cwd = Watch(words), SystemClock(), local(self._cwd(name))
        began = clock.now()
        session = await Session.open(self.world, name, agent=self.agent, workspace=cwd)
        turn = await session.send(prompt(conversation))
        status = ""
        async with aclosing(turn.follow()) as shown:
            async for event in shown:
                if event.kind == "call.text":
                    watch.see(event.text.encode())
                status = event.status
        ended = clock.now()
        if status != "done":
            raise RuntimeError(f"the turn of {self.harness} ended so: {await turn.result()}")
        return Taken(began, ended, watch.at)

    async def requests(self, conversation: str, after: float) -> list[RequestRecord]:
        """The model requests of a conversation since a moment."""
        return [
            one
            for one in await self.models.requests()
            if one.at >= after and one.kind == "model" and one.conversation == conversation
        ]

    async def told_at(self, request: RequestRecord) -> float:
        """The time that `CLOCK` has told, as the request that carries it says."""
        found = [int(stamp) / 1e9 for stamp in _STAMP.findall(await self.models.body(request.n))]
        return max(stamp for stamp in found if stamp <= request.at)


async def each_harness(bench: Bench, of: Callable[[Bench, str], Awaitable[Sequence[Row]]]) -> Sequence[Row]:
    """Measure each harness of this run in a World and a place of its own."""
    return [row for harness in bench.harnesses for row in await of(bench.below(harness), harness)]


def _work(cwd: Path) -> None:
    cwd.mkdir(parents=True)
    (cwd / NOTES).write_text(LINE * 20, encoding="utf-8")


@asynccontextmanager
async def desk_of(bench: Bench, harness: str, workers: int = 1) -> AsyncGenerator[Desk]:
    """A desk with so many workers, on the World of `bench`."""
    user = bench.directory / "user"
    user.mkdir()
    subject = subject_named(harness)
    agent = subject.agent([slow_look, hold], upstream="")
    async with spawn_models(script_of(subject)) as models, bench.open() as world:
        environ = _environ(harness, user, models.base_url)
        async with crew(bench, "benchmarks.harness_agent:agent", workers, environ=environ) as hired:
            yield Desk(bench, harness, agent, world, models, hired)


def _environ(harness: str, user: Path, models: str) -> Mapping[str, str]:
    return {
        HARNESS: harness,
        "HOME": str(user),
        "OUTLAST_HARNESS_DIR": str(read_settings().harnesses),
        "OUTLAST_ANTHROPIC_BASE_URL": models,
        "OUTLAST_OPENAI_BASE_URL": f"{models}/v1",
    }
