"""An MCP server that a user brings, as a program of its own: `python harbour.py FILE`.

What it does outside is counted like the effects of the contract's application.
"""

import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer

from outlast.testing.adapter_contract.shop import Effect, Effects

server = MCPServer("harbour")
effects = Effects(Path(sys.argv[1]))


@server.tool()
async def moor(mark: str, until: str = "") -> str:
    """Make a ship fast; with `until`, once there is a file of this name."""
    effects.add(Effect(mark, "moor"))
    while until and not (effects.file.parent / until).exists():  # noqa: ASYNC110 - files tell nobody
        await anyio.sleep(0.01)
    return f"{mark} is moored"


@server.tool()
async def sink(mark: str) -> str:
    """Sink a ship."""
    effects.add(Effect(mark, "sink"))
    return f"{mark} is sunk"


@server.tool()
async def spy(mark: str) -> str:
    """Look at a ship."""
    effects.add(Effect(mark, "spy"))
    return f"{mark} is a ship"


if __name__ == "__main__":
    server.run()
