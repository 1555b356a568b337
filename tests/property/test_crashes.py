"""Any script, any deaths: whatever a turn is made of and wherever its workers die, every promise holds."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st

from outlast.worlds.memory import open_memory
from tests.crash.plays import check, play
from tests.crash.stage import MANNERS, batch, call, say, tool_name

TOOLS = [*map(tool_name, MANNERS)]
ASKED = [*TOOLS, "built_in", "built_in_safe"]

steps = st.one_of(
    st.tuples(st.just("call"), st.lists(st.sampled_from(TOOLS), min_size=1, max_size=1)),
    st.tuples(st.just("batch"), st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4)),
    st.tuples(st.just("say"), st.lists(st.sampled_from(ASKED), max_size=3)),
)
deaths = st.lists(st.integers(0, 40), max_size=5)
"""At which crossing each of the workers dies; the last one lives."""


def script_from(plan: Sequence[tuple[str, Sequence[str]]]) -> list[Mapping[str, Any]]:
    """The plan with its own text and tags everywhere."""
    tags = (f"tag-{number}" for number in count())
    script: list[Mapping[str, Any]] = []
    for number, (kind, names) in enumerate(plan):
        calls = [call(name, next(tags)) for name in names]
        match kind:
            case "call":
                script.extend(calls)
            case "batch":
                script.append(batch(*calls))
            case _:
                script.append(say(f"thought {number}", *calls))
    return script


@given(st.lists(steps, min_size=1, max_size=5), deaths, st.booleans(), st.booleans())
def test_whatever_a_turn_is_made_of_and_wherever_its_workers_die(
    plan: Sequence[tuple[str, Sequence[str]]],
    deaths: Sequence[int],
    slow: bool,  # noqa: FBT001 - hypothesis passes them by name
    dense: bool,  # noqa: FBT001
) -> None:
    async def carry() -> None:
        async with open_memory() as world:
            await check(await play(world, "s-1", script_from(plan), deaths, slow=slow, dense=dense))

    anyio.run(carry)
