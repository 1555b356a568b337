"""A worker whose model never says the same twice: what an attempt showed cannot be gone on with by the next.

python other_words.py WORLD DATA NAME      (under a supervisor)
"""

import asyncio
import os
from collections.abc import AsyncGenerator

from tests.clients.worker import WORD_S, main

WORDS = 40


async def other_words(text: str) -> AsyncGenerator[str, None]:
    """Numbered words that carry what is asked and who says them."""
    for number in range(WORDS):
        await asyncio.sleep(WORD_S)
        yield f"{text}:{number}:{os.getpid()} "


if __name__ == "__main__":
    asyncio.run(main(other_words))
