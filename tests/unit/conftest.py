from collections.abc import AsyncGenerator

import pytest

from outlast.clock import ManualClock
from outlast.world import World
from outlast.worlds.memory import open_memory


@pytest.fixture
def clock() -> ManualClock:
    """The World's clock, for a test that turns it."""
    return ManualClock()


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    """A World in memory: by the test's own clock if it asks for that, else by the machine's."""
    own: ManualClock | None = request.getfixturevalue("clock") if "clock" in request.fixturenames else None
    async with open_memory(clock=own) as memory:
        yield memory
