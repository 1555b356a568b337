"""Fixtures for pytest. In your `conftest.py`: `pytest_plugins = ["outlast.testing.fixtures"]`.

The tests are asynchronous: mark them for the plugin of your choice (`pytest.mark.anyio` needs none but anyio's).
"""

from collections.abc import Callable, Sequence

import pytest

from outlast.adapter import Agent
from outlast.testing.killing import Cut, KillEverywhere, Meanwhile, OpenWorld, in_memory
from outlast.testing.killing import kill_everywhere as _kill_everywhere


@pytest.fixture
def outlast_world() -> OpenWorld:
    """Opens the World that each killed turn has to itself: one in memory. Define it anew to kill in your own store."""
    return in_memory


@pytest.fixture
def kill_everywhere(outlast_world: OpenWorld) -> KillEverywhere:
    """Runs a turn of an agent uncut, then killed at each of its points, and holds it to what outlast promises."""

    async def kill(
        agent: Agent | Callable[[], Agent],
        prompt: str,
        *,
        meanwhile: Meanwhile | None = None,
        after: Callable[[Cut], None] | None = None,
        same_end: bool = True,
    ) -> Sequence[Cut]:
        return await _kill_everywhere(
            agent, prompt, open_world=outlast_world, meanwhile=meanwhile, after=after, same_end=same_end
        )

    return kill
