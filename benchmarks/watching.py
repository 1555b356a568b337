"""`python -m benchmarks.watching URL SESSION COUNT`: a watcher that says when it saw each event."""

import asyncio
import sys
import time

from outlast.opening import open_world
from outlast.session import Session


async def main(url: str, session: str, count: int) -> None:
    """Print `ready`, then one line per event: the number of its commit, and the moment on the shared clock."""
    seen: list[tuple[str, float]] = []
    async with open_world(url) as world:
        following = (await Session.find(world, session)).follow()
        async for event in following:
            seen.append((event.cursor, time.monotonic()))
            if len(seen) == 1:
                print("ready", flush=True)
            if len(seen) == count:
                break
    for cursor, at_s in seen:
        print(cursor.partition(".")[0], at_s)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
