"""A Claude Agent SDK program that outlasts its process: `outlast run examples.sdk_clerk:clerk "Refund order 81"`."""

import os
from typing import Any

import anyio
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from outlast import Agent
from outlast.adapters.claude_code.sdk import ClaudeAgentSDK


@tool("refund", "Refund an order, in cents", {"order": str, "cents": int})
async def refund(args: dict[str, Any]) -> dict[str, Any]:
    """Runs in the worker, once."""
    async with await anyio.open_file(os.environ.get("LEDGER", "ledger.txt"), "a") as ledger:
        await ledger.write(f"{args['order']} {args['cents']}; ")
    return {"content": [{"type": "text", "text": f"refunded {args['cents']} cents of order {args['order']}"}]}


options = ClaudeAgentOptions(
    system_prompt="You refund orders.",
    mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[refund])},
)
clerk = Agent("clerk", ClaudeAgentSDK(options, policies={"mcp__shop__refund": "never"}))
