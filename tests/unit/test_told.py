"""What a request told of a call otherwise than its harness does: later turns tell it too."""

from collections.abc import Callable

import pytest

from outlast.adapter import Attempt, ToolResult, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.agenda import CORRECTED_LIMIT
from outlast.engine.load import load_state
from outlast.model import TextPart, image
from outlast.records import ResultTold
from outlast.testing.adapter_contract.shop import picture
from outlast.world import World
from tests.unit.engine_desk import Desk, agent_of, opened, records

DONE = ToolResult("ok", "a.txt")


class Turns(Scripted):
    """Each attempt does the next of these."""

    def __init__(self, *steps: Callable[[Attempt], object]) -> None:
        super().__init__(script=[])
        self.steps = list(steps)
        self.found: list[ToolResult | None] = []

    async def advance(self, attempt: Attempt) -> TurnResult:
        self.found.append(attempt.calls.result_of("c1"))
        self.steps.pop(0)(attempt)
        return TurnResult("done")


def nothing(_: Attempt) -> None:
    pass


def tells(result: ToolResult) -> Callable[[Attempt], object]:
    return lambda attempt: attempt.calls.correct("c1", result, told=True)


async def carried_out(world: World, *steps: Callable[[Attempt], object]) -> list[ToolResult | None]:
    """What each of several turns knew of the call as it began."""
    turns = Turns(*steps)
    agent = agent_of([], adapter=turns)
    await opened(world, agent, "s-1", *(f"turn {number}" for number in range(len(steps))))
    for _ in steps:
        await Desk(world).work(agent)
    return turns.found


async def logged(world: World) -> list[ResultTold]:
    return [one for one in await records(world) if isinstance(one, ResultTold)]


@pytest.mark.parametrize(
    "result",
    [
        DONE,
        ToolResult("error", [{"type": "text", "text": "no such file"}]),
        ToolResult("ok", "x" * 100_000),
        ToolResult("ok", (TextPart("look"), image(picture()))),
    ],
    ids=["text", "blocks", "long", "image"],
)
async def test_what_a_request_told_later_turns_tell_too(world: World, result: ToolResult) -> None:
    found = await carried_out(world, tells(result), nothing, nothing)
    assert found == [None, result, result]


async def test_it_is_written_down_once(world: World) -> None:
    await carried_out(world, tells(DONE), tells(DONE), tells(DONE))
    assert len(await logged(world)) == 1


async def test_what_is_told_anew_takes_its_place(world: World) -> None:
    other = ToolResult("error", "it is gone")
    assert await carried_out(world, tells(DONE), tells(other), nothing) == [None, DONE, other]


async def test_what_no_request_has_told_is_not_written_down(world: World) -> None:
    found = await carried_out(world, lambda attempt: attempt.calls.correct("c1", DONE), nothing)
    assert found == [None, None]
    assert not await logged(world)


async def test_only_so_many_are_remembered(world: World) -> None:
    def many(attempt: Attempt) -> None:
        for number in range(CORRECTED_LIMIT + 5):
            attempt.calls.correct(f"c{number}", DONE, told=True)

    assert await carried_out(world, many, nothing) == [None, None]
    state = await load_state(world, "s-1")
    assert list(state.corrected) == [f"c{number}" for number in range(5, CORRECTED_LIMIT + 5)]
