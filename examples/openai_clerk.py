"""Clerks made with the OpenAI Agents SDK: they stay as they are, and the last line makes them outlast their process.

pip install "outlast[openai-agents]"
export OPENAI_API_KEY=…
outlast run examples.openai_clerk:clerk "Refund order 81: 1250 cents, it came broken"
"""

import os
from pathlib import Path
from typing import Any

from agents import Agent as TheirAgent
from agents import function_tool

from outlast import Agent
from outlast.adapters.openai_agents import OpenAIAgents


@function_tool  # nothing is said about it, so it is never run twice
def refund(order: str, cents: int) -> str:
    """Refund an order, in cents."""
    with Path(os.environ.get("LEDGER", "ledger.txt")).open("a") as ledger:
        ledger.write(f"{order} {cents}\n")
    return f"{cents} cents are on their way"


billing: TheirAgent[Any] = TheirAgent("billing", instructions="You pay money back.", tools=[refund])
front: TheirAgent[Any] = TheirAgent("front", instructions="You help customers.", handoffs=[billing])
clerk = Agent("clerk", OpenAIAgents(front))
