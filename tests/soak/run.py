"""Carries the planned turns out and looks at each when it has ended."""

import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import anyio

from outlast.records import AttemptOpened, CallOutcome
from outlast.session import Outcome, Turn
from outlast.testing.adapter_contract.promises import Evidence, broken, left_behind
from outlast.testing.adapter_contract.shop import release
from outlast.testing.adapter_contract.stage import Stage, prompt, until
from tests.soak.crew import Crew, holders
from tests.soak.turns import HELD, TURNS_OF_A_SESSION, PlannedTurn

STILL_S = 240.0
"""So long a turn may stand where it is, however often its workers are killed. How long it takes as a whole is a matter
of how often that is, and of how long its harness takes to start."""
BEGUN = 3
"""How often the hour-long call is begun before it is let go."""


@dataclass
class Soak:
    """One soak under way."""

    stage: Stage
    crew: Crew
    turns: Sequence[PlannedTurn]
    begun_s: float = field(default_factory=time.monotonic)
    took_s: float = 0.0
    done: int = 0
    faults: list[str] = field(default_factory=list[str])
    attempts: list[int] = field(default_factory=list[int])
    takeovers_s: list[float] = field(default_factory=list[float])
    requests: int = 0
    calls: Counter[str] = field(default_factory=Counter[str])

    async def run(self, at_a_time: int, every_s: float) -> None:
        """Carry out every turn."""
        waiting = iter(
            [
                self.turns[first : first + TURNS_OF_A_SESSION]
                for first in range(0, len(self.turns), TURNS_OF_A_SESSION)
            ]
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_when_told, tasks.cancel_scope)
                await self.crew.fill()
                self.begun_s = time.monotonic()
                tasks.start_soon(self.crew.keep, every_s, self._fault)
                tasks.start_soon(self._let_the_hour_pass)
                tasks.start_soon(self._strike_in_a_sub_agent)
                async with anyio.create_task_group() as runners:
                    for _ in range(at_a_time):
                        runners.start_soon(self._sessions, waiting)
                tasks.cancel_scope.cancel()
            self.took_s = time.monotonic() - self.begun_s
        finally:
            with anyio.CancelScope(shield=True):
                await self.crew.dismiss()
        if left := await left_behind(self.stage.directory):
            self._fault(f"processes are left behind: {left}")

    async def _end_when_told(self, everything: anyio.CancelScope) -> None:
        """A SIGTERM or a Ctrl-C ends the soak and its workers; that it has not seen all is said."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self._fault(f"told to end, by {number.name}, before all was done")
                everything.cancel()

    def _fault(self, text: str) -> None:
        self.faults.append(text)
        print(f"BROKEN: {text}", flush=True)

    async def _sessions(self, waiting: Iterator[Sequence[PlannedTurn]]) -> None:
        for turns in waiting:
            await self._session(turns)

    async def _session(self, turns: Sequence[PlannedTurn]) -> None:
        evidence = None
        conversations: list[str] = []
        for turn in turns:
            conversations += turn.script
            if not await self._turn(turn):
                return
            evidence = await self._look(turn, conversations)
        if evidence is not None:
            self._count(evidence)

    async def _turn(self, turn: PlannedTurn) -> bool:
        sent = await self.stage.send(prompt(turn.conversation), session=turn.session, id=turn.conversation)
        outcome = await self._ended(sent, turn.session)
        where = f"turn {turn.number} ({turn.kind}) of session {turn.session}"
        if outcome is None:
            standing = await self._standing(turn.session)
            self._fault(f"{where} did not go on within {STILL_S:g} s: {standing}")
        elif (outcome.status, str(outcome)) != ("done", turn.last):
            self._fault(f"{where} ended otherwise than told: {outcome.status}, {outcome}")
        self.done += 1
        if self.done % 10 == 0:
            took_s = time.monotonic() - self.begun_s
            kills, faults = len(self.crew.blows), len(self.faults)
            print(
                f"{self.done:5}/{len(self.turns)} turns · {kills} kills · {took_s:.0f} s · {faults} broken",
                flush=True,
            )
        return outcome is not None

    async def _ended(self, turn: Turn, session: str) -> Outcome | None:
        """How a turn ended; None if it goes on no more."""
        while True:
            before = self.crew.progress(session)
            with anyio.move_on_after(STILL_S):
                return await turn.result()
            if self.crew.progress(session) == before:
                return None

    async def _standing(self, session: str) -> str:
        """How an open turn stands, and how its last attempts ended."""
        head = await self.stage.world.get(session)
        state = await (await self.stage.session(session)).state()
        attempts = [] if state.turn is None else state.turn.attempts[-5:]
        ends = [f"{one.worker}: {one.ended or 'lost'}" for one in attempts]
        parked = None if state.turn is None else state.turn.parked
        return f"{head.status}; {'; '.join(ends)}; {'' if parked is None else parked.evidence}"

    async def _look(self, turn: PlannedTurn, conversations: Sequence[str]) -> Evidence:
        evidence = await self.stage.evidence(turn.session, *conversations)
        attempts = sum(isinstance(record, AttemptOpened) for record in evidence.records)
        for text in broken(evidence, lost_answers=attempts):
            self._fault(f"turn {turn.number} ({turn.kind}) of session {turn.session}: {text}")
        if left := await left_behind(self.stage.home(turn.session)):
            self._fault(f"turn {turn.number} left processes behind: {left}")
        return evidence

    def _count(self, evidence: Evidence) -> None:
        opened = [record for record in evidence.records if isinstance(record, AttemptOpened)]
        self.attempts.append(len(opened))
        self.requests += len(evidence.requests)
        for record in evidence.records:
            if isinstance(record, CallOutcome):
                self.calls[record.status] += 1
        for blow in self.crew.blows:
            if evidence.session in blow.sessions and blow.way in {"worker", "both", "supervisor"}:
                later = [one.at_s for one in opened if one.at_s > blow.at_s and one.worker != blow.worker]
                self.takeovers_s += [min(later) - blow.at_s] if later else []

    async def _let_the_hour_pass(self) -> None:
        for turn in self.turns:
            if turn.kind == "hour":
                effects = self.stage.effects(turn.session)
                mark = f"t{turn.number}.1"
                await until(lambda effects=effects, mark=mark: effects.count(mark) >= BEGUN, 3600.0)
        release(HELD)

    async def _strike_in_a_sub_agent(self) -> None:
        """The first sub-agent is struck on purpose, since chance might miss them all."""
        turn = next((turn for turn in self.turns if turn.kind == "sub-agent"), None)
        if turn is None:
            return
        effects = self.stage.effects(turn.session)
        await until(lambda: any(one.mark.startswith(f"t{turn.number}.") for one in effects.all()), 3600.0)
        held = await holders(self.stage.world)
        for name, sessions in held.items():
            if turn.session in sessions:
                self.crew.kill_worker(name, sessions)

    def summary(self) -> str:
        """What happened, in a few lines."""
        takeovers = sorted(self.takeovers_s)
        tried = f"{sum(self.attempts)} attempts, {self.requests} model requests"
        lines = [
            f"{self.done} turns of {len(self.attempts)} sessions in {self.took_s:.0f} s, {tried}",
            f"{len(self.crew.blows)} kills: {self.crew.ways()}",
            "calls: " + ", ".join(f"{number} {status}" for status, number in self.calls.most_common()),
        ]
        if takeovers:
            p95 = takeovers[min(len(takeovers) - 1, int(len(takeovers) * 0.95))]
            lines.append(
                f"kill to the next attempt: median {statistics.median(takeovers):.2f} s, "
                f"p95 {p95:.2f} s, max {takeovers[-1]:.2f} s"
            )
        promise = "every promise held" if not self.faults else f"{len(self.faults)} promises were broken"
        return "\n".join([*lines, promise])
