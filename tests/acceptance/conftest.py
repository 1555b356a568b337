"""Holds each test of the real harness to the number of turns that its mark says."""

from collections.abc import Generator
from pathlib import Path
from typing import cast

import anyio
import pytest

from outlast import Session, open_world
from tests.harness_turns import turns_of


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if told := turns_of(item):
        assert isinstance(item, pytest.Function)
        opened = anyio.run(turns_below, cast("Path", item.funcargs["tmp_path"]))
        assert opened == told, f"{opened} turns were opened: mark it harness(turns={opened})"
    return result


async def turns_below(directory: Path) -> int:
    """How many turns the Worlds below a directory have seen."""
    turns = 0
    for file in directory.rglob("world.db"):
        async with open_world(f"sqlite:{file}") as world:
            for head in (await world.list(limit=1000)).sessions:
                session = await Session.find(world, head.session)
                turns += (await session.state()).next_turn - 1
    return turns
