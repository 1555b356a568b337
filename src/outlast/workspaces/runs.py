"""The commands of one site: each begun once, and none half done in what is captured."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from outlast.workspace import Command, Ran


class Runs:
    """What runs and has run in a site of this attempt."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[Ran]] = {}
        self._ended: dict[str, Ran] = {}
        self._busy = 0
        self._rest = asyncio.Condition()

    def has(self, job: str) -> bool:
        """Whether a command of this name was begun here."""
        return job in self._ended or job in self._running

    async def run(self, command: Command, begin: Callable[[], Awaitable[Ran]]) -> Ran:
        """Run a command, or wait for the one that runs under this name, or say how that ended."""
        job = command.job
        if job in self._ended:
            return self._ended[job]
        if job in self._running:
            return await asyncio.shield(self._running[job])
        mine = self._running[job] = asyncio.get_running_loop().create_future()
        began = False
        try:
            async with self._rest:
                self._busy += 1
                began = True
            ran = self._ended[job] = await begin()
            mine.set_result(ran)
        except BaseException as error:
            if isinstance(error, Exception):
                mine.set_exception(error)
                mine.exception()  # whoever waits hears it; that nobody does is no news
            else:
                mine.cancel()
            raise
        else:
            return ran
        finally:
            del self._running[job]
            self._busy -= began
            if began and not self._busy:
                async with self._rest:
                    self._rest.notify_all()

    @asynccontextmanager
    async def still(self) -> AsyncGenerator[None]:
        """Nothing runs, and nothing begins, while the context lasts."""
        async with self._rest:
            await self._rest.wait_for(lambda: not self._busy)
            yield
