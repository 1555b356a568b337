"""A support agent with a tool that must not run twice: a refund, under each replay policy.

    export ANTHROPIC_API_KEY=…
    outlast run examples.refund:support "Refund order 81: 1250 cents, it came broken"

Kill it at any time and carry it on with `outlast run examples.refund:support`: the ledger, a file of its own, holds one
refund. `approving` asks a person first; what it waits for is answered with `Session.decide`.
"""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from outlast import Agent, Done, NotDone, Tool, ToolIO, Verdict, tool
from outlast.adapters.assistant import Assistant
from outlast.adapters.python import IO, Loop
from outlast.model import Model
from outlast.models.anthropic import Anthropic
from outlast.records.kinds import OnDoubt, Policy

INSTRUCTIONS = """You refund orders. If it is not known whether a refund happened, look it up with find_refund first,
and refund again only if there is none."""


class Ledger:
    """The payment provider of this example: it knows nothing of outlast, and never forgets a refund.

    Args:
        file: a SQLite file of its own.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def pay(self, order: str, cents: int, key: str | None = None) -> str:
        """Refund; the same key again is the same refund."""
        with closing(self._open()) as database, database:
            database.execute("INSERT OR IGNORE INTO refunds VALUES (?, ?, ?)", (key, order, cents))
        return f"refunded {cents} cents of order {order}"

    def find(self, order: str) -> str | None:
        """The refund of an order, if there is one."""
        with closing(self._open()) as database:
            row = database.execute("SELECT cents FROM refunds WHERE refund_of = ?", (order,)).fetchone()
        return None if row is None else f"refunded {row[0]} cents of order {order}"

    def count(self, order: str) -> int:
        """How many refunds of an order there are."""
        with closing(self._open()) as database:
            return database.execute("SELECT count(*) FROM refunds WHERE refund_of = ?", (order,)).fetchone()[
                0
            ]

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file)
        database.execute(
            "CREATE TABLE IF NOT EXISTS refunds (key TEXT UNIQUE, refund_of TEXT, cents INTEGER)"
        )
        return database


def tools(ledger: Ledger, policy: Policy = "verify", on_doubt: OnDoubt = "tell") -> list[Tool]:
    """The tools of the agent, with the refund under `policy`."""

    async def landed(io: ToolIO, order: str, cents: int) -> Verdict:
        found = await asyncio.to_thread(ledger.find, order)
        return NotDone() if found is None else Done(found)

    async def refund(io: ToolIO, order: str, cents: int) -> str:
        """Refund an order, in cents."""
        # `safe` is only for what may be repeated as often as one likes: here the order itself is the key.
        key = {"keyed": io.key, "safe": order}.get(policy)
        return await asyncio.to_thread(ledger.pay, order, cents, key)

    async def find_refund(io: ToolIO, order: str) -> str:
        """Look up whether an order was refunded."""
        return await asyncio.to_thread(ledger.find, order) or "There is no refund of this order."

    verify = landed if policy == "verify" else None
    return [
        tool(replay=policy, verify=verify, on_doubt=on_doubt)(refund),
        tool(replay="safe")(find_refund),
    ]


def support_of(model: Model, ledger: Ledger, policy: Policy = "verify", on_doubt: OnDoubt = "tell") -> Agent:
    """The agent that a model speaks for."""
    return Agent("support", Assistant(model, INSTRUCTIONS), tools=tools(ledger, policy, on_doubt))


async def refund_if_approved(io: IO, prompt: str) -> str:
    """Ask a person before the refund: a loop of one's own, that costs nothing while nobody answers."""
    order, cents = prompt.split()
    answer = await io.ask(
        f"Refund {cents} cents of order {order}?", choices=["yes", "no"], timeout_s=14 * 86_400
    )
    if answer != "yes":
        return f"Order {order} is not refunded: {answer}."
    return await io.tool("refund", order=order, cents=int(cents))


def approving_of(ledger: Ledger, policy: Policy = "verify") -> Agent:
    """The agent that asks first; its prompt is an order and the cents: `81 1250`."""
    return Agent("approving", Loop(refund_if_approved), tools=tools(ledger, policy))


def _ledger() -> Ledger:
    return Ledger(Path(os.environ.get("LEDGER", "ledger.db")))


support = support_of(Anthropic("claude-sonnet-5-5"), _ledger())
approving = approving_of(_ledger())
