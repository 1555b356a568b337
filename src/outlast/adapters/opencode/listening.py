"""Where a process of OpenCode listens, which it says when it does."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

from outlast.adapter import Process
from outlast.errors import HarnessError

START_S: Final = 60.0
"""How long OpenCode may take until it listens, until it has loaded everything, and from the prompt to its request."""
_LISTENING: Final = re.compile(rb"listening on (http://\S+)")


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
                found = _LISTENING.search(line)
                if found is not None:
                    return found[1].decode()
    except TimeoutError:
        raise failed(process, f"it does not listen after {START_S:g} s") from None
    raise failed(process, "it ended before it listened")


def failed(process: Process, what: str) -> HarnessError:
    """A failure of the process, with what it wrote about it."""
    return HarnessError(harness="OpenCode", reason=f"{what}. {process.errors()[-2000:]}")
