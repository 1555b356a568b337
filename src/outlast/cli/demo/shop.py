"""An imaginary shop: what both casts can do in it, and what must not be done twice."""

from collections.abc import Mapping
from typing import Any, Final

import anyio

from outlast.cli.demo.props import BANK, ledger, stands
from outlast.tool import ToolFailed, ToolIO, tool

SETTLING_S = 15.0
PULSE_S = 0.2
OPEN_ORDERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "81": {"order": "81", "cents": 4990, "paid": False},
    "82": {"order": "82", "cents": 750, "paid": False},
}


@tool(replay="safe")
async def find_order(io: ToolIO, order: str) -> Mapping[str, Any]:  # noqa: ARG001 - every tool is given io
    """Look an order up."""
    if order not in OPEN_ORDERS:
        raise ToolFailed(f"There is no order {order}.")
    return OPEN_ORDERS[order]


@tool
async def charge_card(io: ToolIO, order: str, cents: int) -> str:
    """Charge the card of an order, in cents."""
    with ledger().open("a", encoding="utf-8") as lines:
        lines.write(f"{order} {cents}\n")
    for _ in range(int(SETTLING_S / PULSE_S)):
        io.show("waiting for the bank to settle\n")
        await anyio.sleep(PULSE_S)
    return f"order {order}: {cents} cents charged"


@tool(replay="safe")
async def find_charges(io: ToolIO, order: str) -> list[int]:  # noqa: ARG001 - every tool is given io
    """List what was charged for an order, in cents."""
    # The bank answers when another worker stands by, so that no kill goes unseen.
    with anyio.move_on_after(SETTLING_S):
        while not stands(BANK):  # noqa: ASYNC110 - another process opens it
            await anyio.sleep(PULSE_S)
    if not ledger().exists():
        return []
    rows = [line.split() for line in ledger().read_text(encoding="utf-8").splitlines()]
    return [int(cents) for found, cents in rows if found == order]
