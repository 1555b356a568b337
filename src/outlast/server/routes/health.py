"""Whether the server lives, and whether it can do something."""

from collections.abc import Sequence
from typing import Final

import anyio
import msgspec

from outlast.errors import WorldUnavailable
from outlast.server.operations import Call, Nothing, Operation

READY_S: Final = 5.0


class Health(msgspec.Struct, frozen=True):
    """It is well."""

    status: str = "ok"


async def healthz(_call: Call[Nothing, Nothing]) -> Health:
    """Say that the process answers. It says nothing of the World: a restart would not bring that back."""
    return Health()


async def readyz(call: Call[Nothing, Nothing]) -> Health:
    """Say that the World answers: 503 takes this server out of a balancer's choice until it does."""
    with anyio.move_on_after(READY_S):
        await call.services.world.list(limit=1)
        return Health()
    raise WorldUnavailable(world="The World", reason=f"it has not answered for {READY_S:g} s")


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", "/healthz", healthz, None, Health),
    Operation("GET", "/readyz", readyz, None, Health),
)
