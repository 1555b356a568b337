"""Answers an editor at standard input and output."""

from typing import cast

import acp
import anyio

from outlast.cli.acp.desk import Desk, Wish
from outlast.cli.acp.lines import open_lines
from outlast.cli.options import Setup
from outlast.errors import BadInput
from outlast.world import Capability

__all__ = ["Wish", "serve"]


async def serve(setup: Setup, wish: Wish) -> None:
    """Answer the editor at standard input and output until it is gone.

    Raises:
        BadInput: the World cannot be shared with a worker; nobody is at the other end.
    """
    lines = await open_lines()
    async with setup.world() as world, anyio.create_task_group() as tasks:
        if Capability.MULTI_PROCESS not in world.capabilities and not wish.detached:
            raise BadInput(detail=f"{world.name} is known to one process only; a worker is another one.")
        desk = Desk(setup, world, wish, tasks)
        try:
            await acp.run_agent(cast("acp.Agent", desk), lines, use_unstable_protocol=True)
        finally:
            desk.leave()
        tasks.cancel_scope.cancel()
