"""A worker of some version in a process of its own: of outlast, and of the agent's code.

    python versions.py ORDERS      (JSON, see `Orders`; under a supervisor)

It says `ready` when its leases stand, and works until it is killed or its standard input ends. A newer outlast is this
one that writes, and reads, a newer record format under a newer number.
"""

import asyncio
import os
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Final, cast

import msgspec

from outlast.adapter import Agent, Gateway
from outlast.adapters.python import IO, Loop
from outlast.engine.deadlines import claim_supervision
from outlast.records import FORMAT
from outlast.tool import Tool, ToolIO, tool
from outlast.worker import WorkerConfig, open_worker
from outlast.worlds.sqlite import open_sqlite

NEWER: Final = "99.0"


class Orders(msgspec.Struct, frozen=True):
    """What such a worker is told."""

    world: str
    data: str
    ledger: str
    """Where each effect leaves a line: session, tool."""
    name: str
    newer_outlast: bool = False
    newer_code: bool = False
    only: str | None = None
    fatal: str = ""
    """The tool in the midst of which the worker gets SIGKILL."""


def _become_newer() -> None:
    def newer(_: str) -> str:
        return NEWER

    for name, module in list(sys.modules.items()):
        known: dict[str, object] = vars(module) if name.startswith("outlast.") else {}
        for format_ in {"FORMAT", "PLAIN"} & known.keys():  # it writes nothing that an older one reads
            known[format_] = FORMAT + 1
        if known.get("version") is metadata.version:
            known["version"] = newer


def agent_of(orders: Orders) -> Agent:
    """The agent, in its older or its newer code."""

    def effect(name: str) -> Tool:
        @tool(name=name)
        async def act(io: ToolIO) -> str:
            """Do something outside."""
            await asyncio.to_thread(note, f"{io.session} {name}\n")
            if name == orders.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return f"{name} done"

        return act

    def note(line: str) -> None:
        with Path(orders.ledger).open("a", encoding="utf-8") as ledger:
            ledger.write(line)

    async def order(io: IO, prompt: str) -> object:
        await io.tool("reserve")
        if orders.newer_code and await io.patched("check"):
            await io.tool("check")
        if prompt == "wait":
            await io.wait_for("paid")
        return (await io.result("ship", {})).status

    tools = [effect(name) for name in ("reserve", "check", "ship")]
    return Agent("order", Loop(order), tools=tools)


async def main() -> None:
    """Work until the end."""
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    supervision = claim_supervision(os.environ)
    if orders.newer_outlast:
        _become_newer()
    async with open_sqlite(Path(orders.world)) as world:
        config = WorkerConfig(
            Path(orders.data),
            name=orders.name,
            only=orders.only,
            supervision=supervision,
            kill_grace_s=0.2,
        )
        async with (
            open_worker(world, {"order": agent_of(orders)}, cast("Gateway", None), config) as worker,
            asyncio.TaskGroup() as tasks,
        ):
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            tasks.create_task(worker.work())
            await asyncio.to_thread(sys.stdin.readline)
            worker.drain()


if __name__ == "__main__":
    asyncio.run(main())
