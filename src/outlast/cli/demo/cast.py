"""Who plays: an agent of an imaginary shop, with one tool that must not run twice and one that may."""

import os
from pathlib import Path

import anyio

from outlast.adapter import Agent
from outlast.adapters.claude_code import ClaudeCode
from outlast.cli.demo.props import BANK, LEDGER_VARIABLE
from outlast.tool import ToolIO, tool

SETTLING_S = 15.0
PULSE_S = 0.2


def bank_is_open() -> bool:
    """The bank answers questions: the stage opens it when another worker stands by, so that no kill goes unseen."""
    return ledger().with_name(BANK).exists()


def ledger() -> Path:
    """The file that stands for the outside world: one line for each card that was charged."""
    return Path(os.environ[LEDGER_VARIABLE])


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
    with anyio.move_on_after(SETTLING_S):
        while not bank_is_open():  # noqa: ASYNC110 - another process opens it
            await anyio.sleep(PULSE_S)
    if not ledger().exists():
        return []
    rows = [line.split() for line in ledger().read_text(encoding="utf-8").splitlines()]
    return [int(cents) for found, cents in rows if found == order]


agent = Agent("demo-shop", ClaudeCode(model="claude-sonnet-4-5"), tools=[charge_card, find_charges])
