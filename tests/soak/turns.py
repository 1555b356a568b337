"""What the soaked turns do: drawn from a seed, alike in every run with it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.models import Step, ToolUse
from tests.harnesses.claude_code import agent_use, bash, use, write

Kind: TypeAlias = Literal["words", "single", "parallel", "chain", "sub-agent", "hour"]

TURNS_OF_A_SESSION = 4
HELD = "hour-is-over"
"""What the hour-long tool call waits for."""
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


class _Marks:
    """Names for effects, each used once."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._count = 0

    def next(self) -> str:
        self._count += 1
        return f"t{self._turn}.{self._count}"


def planned(n: int, seed: int) -> list[PlannedTurn]:
    """`n` turns, with at least one sub-agent and one hour-long tool call among them."""
    rng = random.Random(seed)
    kinds: list[Kind] = rng.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()), k=n)
    if n >= 2:
        first, second = rng.sample(range(n), 2)
        kinds[first], kinds[second] = "sub-agent", "hour"
    return [_turn(number, kind, rng) for number, kind in enumerate(kinds)]


def _turn(number: int, kind: Kind, rng: random.Random) -> PlannedTurn:
    session, name = f"s{number // TURNS_OF_A_SESSION}", f"t{number}"
    marks = _Marks(number)
    script: dict[str, Sequence[Step]] = {}
    steps = _steps(kind, session, name, marks, rng, script)
    end = Step(text=f"Turn {number} is over.", gap_s=_gap(rng), delay_s=rng.uniform(0, 0.3))
    script[name] = [*steps, end]
    return PlannedTurn(number, session, kind, name, script)


def _steps(
    kind: Kind,
    session: str,
    name: str,
    marks: _Marks,
    rng: random.Random,
    script: dict[str, Sequence[Step]],
) -> list[Step]:
    match kind:
        case "words":
            return []
        case "single":
            return [_step([_tool(session, marks, rng)], rng)]
        case "parallel":
            return [_step([_tool(session, marks, rng) for _ in range(rng.randint(2, 5))], rng)]
        case "chain":
            return [_step([_tool(session, marks, rng)], rng) for _ in range(rng.randint(2, 3))]
        case "sub-agent":
            inner = f"{name}.sub"
            script[inner] = [_step([_tool(session, marks, rng), _tool(session, marks, rng)], rng), _said(rng)]
            return [_step([agent_use(inner)], rng)]
        case "hour":
            return [_step([use("wait_an_hour", mark=marks.next(), until=HELD)], rng)]


def _said(rng: random.Random) -> Step:
    return Step(text="This is what was found, in a few words.", gap_s=_gap(rng))


def _step(tools: Sequence[ToolUse], rng: random.Random) -> Step:
    said = (
        "I do the next thing, and say in a sentence or two what it is, so that there is something to stream."
    )
    return Step(text=said, tools=tuple(tools), gap_s=_gap(rng), delay_s=rng.uniform(0, 0.2))


def _gap(rng: random.Random) -> float:
    return rng.choice((0.0, 0.0, 0.01, 0.03))


def _tool(session: str, marks: _Marks, rng: random.Random) -> ToolUse:
    hold_s = rng.choice((0.0, 0.0, 0.2, 0.6))

    def ours(name: str) -> Callable[[], ToolUse]:
        return lambda: use(name, mark=marks.next(), hold_s=hold_s)

    makers: list[Callable[[], ToolUse]] = [
        *(ours(name) for name in ("charge", "look", "pay", "book")),
        lambda: bash(effect_command(session, marks.next(), f"; sleep {hold_s}")),
        lambda: bash(effect_command(session, marks.next())),
        lambda: bash(f"sleep {hold_s}; ls"),
        lambda: ToolUse(name="Read", input={"file_path": "read-me.txt"}),
        lambda: write(f"{marks.next()}.txt", "written once\n"),
    ]
    return rng.choice(makers)()
