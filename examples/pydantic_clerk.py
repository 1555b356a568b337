"""A clerk made with pydantic-ai: the agent stays as it is, and the last line makes it outlast its process.

pip install "outlast[pydantic-ai]" "pydantic-ai-slim[anthropic]"
export ANTHROPIC_API_KEY=…
outlast run examples.pydantic_clerk:clerk "Refund order 81: 1250 cents, it came broken"
"""

import os
from pathlib import Path

from pydantic_ai import Agent as TheirAgent

from outlast import Agent
from outlast.adapters.pydantic_ai import PydanticAI

agent = TheirAgent("anthropic:claude-sonnet-5-5", instructions="You help customers.", defer_model_check=True)


@agent.tool_plain  # nothing is said about it, so it is never run twice
def refund(order: str, cents: int) -> str:
    """Refund an order, in cents."""
    with Path(os.environ.get("LEDGER", "ledger.txt")).open("a") as ledger:
        ledger.write(f"{order} {cents}\n")
    return f"{cents} cents are on their way"


clerk = Agent("clerk", PydanticAI(agent))
