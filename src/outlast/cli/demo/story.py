"""The story: one turn, three kills, told as it happens."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
import click
from anyio.abc import TaskGroup

from outlast.cli.demo.plot import Plot
from outlast.cli.demo.receipt import KillLine, WaitLine
from outlast.cli.demo.stage import Stage
from outlast.records import Usage
from outlast.records.events import Event
from outlast.session import Session

WHILE_STREAMING: Final = "the model streams"
WHILE_TOOL: Final = "a never tool runs"
BETWEEN: Final = "nothing runs, between two calls"
WAIT_S: Final = 1.5
"""How long the signal is held back."""
LOOK_S: Final = 0.1
_GOES_ON: Final = frozenset({"call.opened", "call.text", "call.started", "call.settled"})


@dataclass
class Director:
    """Watches the turn, kills the advancing worker at three moments, and sends the signal that the turn waits for."""

    plot: Plot
    stage: Stage
    session: Session
    say: Callable[[str], None]
    tasks: TaskGroup | None = None
    """Where replacements for killed workers are started; set while the turn is watched."""
    kills: list[KillLine] = field(default_factory=list[KillLine])
    waits: list[WaitLine] = field(default_factory=list[WaitLine])
    _worker: str = ""
    _killed_at: float = 0.0
    _names: dict[int, str] = field(default_factory=dict[int, str])
    _kinds: dict[int, str] = field(default_factory=dict[int, str])
    _finished: list[Usage] = field(default_factory=list[Usage])
    _finished_calls: int = 0

    def watch(self, event: Event) -> None:
        """Take in an event; maybe kill."""
        self._remember(event)
        self._measure(event)
        moment = self._moment(event)
        if (
            moment is not None
            and all(kill.while_ != moment for kill in self.kills)
            and self._is_covered(event)
        ):
            self._kill(moment)
        if self._waits(event) and self.tasks is not None and not self.waits:
            self.waits.append(WaitLine(self.plot.signal))
            self.tasks.start_soon(self._signal, self.waits[-1])

    def _is_covered(self, event: Event) -> bool:
        """The advancing worker is ours, and another stands by, or this is the last chance."""
        last = self._names.get(event.call) == self.plot.last_chance
        return self._worker in self.stage.players and (len(self.stage.players) > 1 or last)

    def _remember(self, event: Event) -> None:
        match event.kind:
            case "attempt.opened":
                self._worker = self.stage.name_of(str(event.facts.get("worker", "")))
            case "call.opened":
                self._names[event.call] = event.name
                self._kinds[event.call] = str(event.facts.get("kind", ""))
            case "call.settled":
                self._finished_calls += 1
                if event.usage is not None:
                    self._finished.append(event.usage)
            case _:
                pass

    def _measure(self, event: Event) -> None:
        """After a kill: when did another worker take over, when did the turn go on?"""
        if not self.kills or self.kills[-1].recovery_s or not self._killed_at:
            return
        kill, since = self.kills[-1], time.monotonic() - self._killed_at
        if event.kind == "attempt.opened":
            kill.taken_over_by, kill.takeover_s = self._worker, round(since, 4)
            self.say(f"    ✚ {self._worker} took over after {since * 1000:.0f} ms and reads the log")
        elif kill.taken_over_by and event.kind in _GOES_ON:
            kill.recovery_s = round(since, 3)

    def _moment(self, event: Event) -> str | None:
        kind = self._kinds.get(event.call)
        match event.kind:
            case "call.text" if kind == "model" and event.offset > 60 and self._finished_calls >= 2:
                return WHILE_STREAMING
            case "call.output" if self._names.get(event.call) == "charge_card" and self.stage.ledger.exists():
                return WHILE_TOOL
            # What recovery settles as in doubt is no call that ended: the next one follows at once.
            case "call.settled" if kind == "tool" and event.status == "ok" and len(self.kills) == 2:
                return BETWEEN
            case _:
                return None

    def _kill(self, moment: str) -> None:
        spent = Usage()
        for usage in self._finished:
            spent = spent + usage
        line = KillLine(while_=moment, worker=self._worker, finished_calls=self._finished_calls, saved=spent)
        self.kills.append(line)
        self.say(f"    ✖ kill -9 {self._worker} while {moment}")
        self._killed_at = self.stage.kill(self._worker)
        if moment == BETWEEN:
            self.stage.spare()
        if self.tasks is not None:
            self.tasks.start_soon(self.stage.enter)

    def _waits(self, event: Event) -> bool:
        return bool(self.plot.signal) and event.kind == "attempt.ended" and event.status == "waiting"

    async def _signal(self, wait: WaitLine) -> None:
        """Look for a while at who holds the session that waits, then send the signal."""
        since = anyio.current_time()
        while anyio.current_time() - since < WAIT_S:
            head = await self.session.head()
            wait.looks += 1
            wait.free += head.worker is None
            await anyio.sleep(LOOK_S)
        wait.lasted_s = round(anyio.current_time() - since, 2)
        self.say(
            f"    ✉ outlast signal {self.session.id} {wait.signal}: no worker held the session until now"
        )
        await self.session.signal(wait.signal, self.plot.news, id="demo-signal")


def saved_by(kills: Sequence[KillLine]) -> dict[str, float | int]:
    """What starting over at each kill would have repeated."""
    total = Usage()
    for kill in kills:
        total = total + kill.saved
    tokens = total.input_tokens + total.output_tokens + total.cache_read_tokens + total.cache_write_tokens
    return {
        "calls": sum(kill.finished_calls for kill in kills),
        "tokens": tokens,
        "usd": round(total.cost_usd, 6),
    }


def teller(*, quiet: bool) -> Callable[[str], None]:
    """Where the story goes: standard output, or standard error when that belongs to JSON."""
    return lambda text: click.echo(text, err=quiet)
