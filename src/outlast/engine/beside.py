"""What a session does beside everything else that it does, one thing after the other, while a worker holds it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from outlast.engine.stopping import stop
from outlast.errors import AttemptLost

T = TypeVar("T")


class Beside(ABC, Generic[T]):
    """Does what is next for as long as there is something."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._quiet = asyncio.Event()
        self._over = False

    @abstractmethod
    def _next(self) -> T | None:
        """What is to be done now."""

    @abstractmethod
    async def _do(self, found: T) -> None:
        """Do it, so that it is next no more."""

    @property
    def busy(self) -> bool:
        """Something is to be done now."""
        return not self._over and self._next() is not None

    async def quiet(self, limit_s: float) -> None:
        """Wait until nothing is to be done now, at most `limit_s` seconds."""
        self._quiet.clear()
        if self.busy:
            try:
                async with asyncio.timeout(limit_s):
                    await self._quiet.wait()
            except TimeoutError:
                pass

    @asynccontextmanager
    async def going_on(self) -> AsyncGenerator[None]:
        """It goes on meanwhile. What is under way when the context ends is left to whoever claims the session next."""
        task = asyncio.get_running_loop().create_task(self._do_all())
        try:
            yield
        finally:
            await stop({task})
        error = None if task.cancelled() or not task.done() else task.exception()
        if error is not None and not isinstance(error, AttemptLost):
            raise error

    async def _do_all(self) -> None:
        try:
            while True:
                self._changed.clear()
                while (found := self._next()) is not None:
                    await self._do(found)
                self._quiet.set()
                await self._changed.wait()
        finally:
            self._over = True
            self._quiet.set()
