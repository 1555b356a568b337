"""What the soaked turns do: drawn from a seed, alike in every run with it."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from outlast.testing.adapter_contract import Subject
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.models import Step, ToolUse

Kind: TypeAlias = Literal["words", "single", "parallel", "chain", "sub-agent", "hour"]

TURNS_OF_A_SESSION = 4
HELD = "hour-is-over"
"""What the hour-long tool call waits for."""
_CONVERSATION = re.compile(r"t(\d+)")
_WEIGHTS: dict[Kind, int] = {"words": 4, "single": 30, "parallel": 38, "chain": 20, "sub-agent": 8}


@dataclass(frozen=True)
class PlannedTurn:
    """One turn: which session it belongs to, and what the model will say."""

    number: int
    session: str
    kind: Kind
    conversation: str
    script: dict[str, Sequence[Step]] = field(repr=False)

    @property
    def last(self) -> str:
        return f"Turn {self.number} is over."


def session_of(conversation: str) -> str:
    """The session that a conversation of the script belongs to; empty if it is none of a turn's."""
    found = _CONVERSATION.match(conversation)
    return f"s{int(found[1]) // TURNS_OF_A_SESSION}" if found else ""


class _Marks:
    """Names for effects, each used once."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._count = 0

    def next(self) -> str:
        self._count += 1
        return f"t{self._turn}.{self._count}"


def planned(subject: Subject, n: int, seed: int) -> list[PlannedTurn]:
    """`n` turns of a harness, with at least one hour-long tool call and one sub-agent, if it has them, among them."""
    rng = random.Random(seed)
    has_sub_agents = subject.sub_agent("any") is not None
    weights: dict[Kind, int] = {
        kind: weight for kind, weight in _WEIGHTS.items() if has_sub_agents or kind != "sub-agent"
    }
    kinds: list[Kind] = rng.choices(list(weights), weights=list(weights.values()), k=n)
    if n >= 2:
        first, second = rng.sample(range(n), 2)
        kinds[first], kinds[second] = "sub-agent" if has_sub_agents else "chain", "hour"
    return [_Writer(subject, number, rng).turn(kind) for number, kind in enumerate(kinds)]


class _Writer:
    """Writes one turn."""

    def __init__(self, subject: Subject, number: int, rng: random.Random) -> None:
        self._subject = subject
        self._number = number
        self._rng = rng
        self._session = session_of(f"t{number}")
        self._marks = _Marks(number)
        self._script: dict[str, Sequence[Step]] = {}

    def turn(self, kind: Kind) -> PlannedTurn:
        name, rng = f"t{self._number}", self._rng
        steps = self._steps(kind, name)
        end = Step(text=f"Turn {self._number} is over.", gap_s=self._gap(), delay_s=rng.uniform(0, 0.3))
        self._script[name] = [*steps, end]
        return PlannedTurn(self._number, self._session, kind, name, self._script)

    def _steps(self, kind: Kind, name: str) -> list[Step]:
        match kind:
            case "words":
                return []
            case "single":
                return [self._step(self._tool())]
            case "parallel":
                return [self._step(*(self._tool() for _ in range(self._rng.randint(2, 5))))]
            case "chain":
                return [self._step(self._tool()) for _ in range(self._rng.randint(2, 3))]
            case "sub-agent":
                inner = f"{name}.sub"
                report = Step(text="This is what was found, in a few words.", gap_s=self._gap())
                self._script[inner] = [self._step(self._tool(), self._tool()), report]
                return [self._step(self._subject.sub_agent(inner))]
            case "hour":
                held = self._subject.application("wait_an_hour", mark=self._marks.next(), until=HELD)
                return [self._step(held)]

    def _step(self, *tools: ToolUse | None) -> Step:
        said = "I do the next thing, and say in a sentence or two what it is, so that there is something to stream."
        there = tuple(tool for tool in tools if tool is not None)
        return Step(text=said, tools=there, gap_s=self._gap(), delay_s=self._rng.uniform(0, 0.2))

    def _gap(self) -> float:
        return self._rng.choice((0.0, 0.0, 0.01, 0.03))

    def _tool(self) -> ToolUse:
        hold_s = self._rng.choice((0.0, 0.0, 0.2, 0.6))
        made = self._rng.choice(self._makers(hold_s))()
        if made is not None:
            return made
        return self._subject.application("look", mark=self._marks.next(), hold_s=hold_s)

    def _makers(self, hold_s: float) -> Sequence[Callable[[], ToolUse | None]]:
        subject, marks = self._subject, self._marks

        def ours(name: str) -> Callable[[], ToolUse]:
            return lambda: subject.application(name, mark=marks.next(), hold_s=hold_s)

        return [
            *(ours(name) for name in ("charge", "look", "pay", "book")),
            lambda: subject.shell(effect_command(self._session, marks.next(), f"; sleep {hold_s}")),
            lambda: subject.shell(effect_command(self._session, marks.next())),
            lambda: subject.shell(f"sleep {hold_s}; ls"),
            lambda: subject.shell("cat read-me.txt"),
            lambda: subject.write(f"{marks.next()}.txt", "written once\n"),
        ]
