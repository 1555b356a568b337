from collections.abc import AsyncGenerator

import pytest

from outlast.world import World
from outlast.worlds.memory import open_memory


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with open_memory() as memory:
        yield memory
