"""What a worker process of the contract is told to do. Apart from the worker's module, which runs as `__main__`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from outlast.engine.processes import STARTING_S, supervisor_argv
from outlast.folders import make_private
from outlast.ids import new_id
from outlast.testing.faults import Spot

MODULE: Final = "outlast.testing.adapter_contract.worker"
HELLO_S: Final = 20.0
"""How long a harness's hooks may take to say hello; a loaded machine needs a while to start a large program."""


class Orders(msgspec.Struct, frozen=True):
    """What one worker process is to do."""

    subject: str
    """Its recipe."""
    path: Sequence[str]
    """Where modules are found."""
    world: str
    data: str
    upstream: str
    name: str
    session: str | None = None
    """Advance this session and no other."""
    point: str = ""
    """Where to die; empty: nowhere."""
    policy: str = ""
    nth: int = 1
    lease_s: float = 10.0
    concurrency: int = 16
    fresh_homes: bool = False
    """Each attempt finds nothing of an earlier one, as on another machine."""
    recovery_budget: int | None = None
    """None: the agent's own."""

    @classmethod
    def at(cls, spot: Spot) -> dict[str, object]:
        """The fields that say where to die."""
        return {"point": spot.point.value, "policy": spot.policy, "nth": spot.nth}


def orders_argv(orders: Orders) -> list[str]:
    """The command line of a worker with these orders, its supervisor around it."""
    locks = Path(orders.data) / "locks"
    make_private(locks)
    command = [sys.executable, "-m", MODULE, msgspec.json.encode(orders).decode()]
    return supervisor_argv(command, lock=locks / new_id("worker"), ttl_s=orders.lease_s + STARTING_S)
