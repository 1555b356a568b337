"""JSON-RPC messages over a supervised process (`acp` calls it a transport)."""

import json
from typing import Any

from outlast.adapter import Process


class ProcessTransport:
    """The agent's standard input and output, a JSON object a line; what is no JSON is somebody's print."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lines = process.lines()

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message."""
        await self._process.write(
            json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        )

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the agent has ended."""
        async for line in self._lines:
            try:
                found: object = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                return found  # pyright: ignore[reportUnknownVariableType] - JSON
        return None

    async def close(self) -> None:
        """The process belongs to the attempt."""
