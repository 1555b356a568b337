"""Where a process of OpenCode listens, which it says when it does."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from outlast.adapter import Process
from outlast.errors import HarnessError
from outlast.processes import said_port

START_S: Final = 60.0
"""How long OpenCode may take until it listens, until it has loaded everything, and from the prompt to its request."""


async def base_url_of(process: Process, lines: AsyncIterator[bytes]) -> str:
    """The address of the process, once it listens.

    Args:
        lines: what it writes; the rest is for others to read.

    Raises:
        HarnessError: it ended before, or does not come to it.
    """
    try:
        async with asyncio.timeout(START_S):
            async for line in lines:
                found = said_port(line)
                if found is not None:
                    return f"http://127.0.0.1:{int(found[1])}"
    except TimeoutError:
        raise failed(process, f"it does not listen after {START_S:g} s") from None
    raise failed(process, "it ended before it listened")


def failed(process: Process, what: str) -> HarnessError:
    """A failure of the process, with what it wrote about it."""
    return HarnessError(harness="OpenCode", reason=f"{what}. {process.errors()[-2000:]}")
