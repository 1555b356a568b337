"""Something that ends once, and any number who wait for it."""

import asyncio
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Ending(Generic[T]):
    """How something ended. Whoever is cancelled while waiting leaves it as it is.

    A shielded future would do the same; here `end` itself wakes whoever waits, without further rounds of the event
    loop, which are a good part of what a call costs. Belongs to one event loop.
    """

    __slots__ = ("_error", "_result", "_waiting", "over")

    def __init__(self) -> None:
        self.over = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def end(self, result: T) -> None:
        """It ended with `result`. The first word stands."""
        if not self.over:
            self._result = result
            self._wake()

    def fail(self, error: BaseException) -> None:
        """It ended with `error`, which everybody who waits is given."""
        if not self.over:
            self._error = error
            self._wake()

    @property
    def failed(self) -> bool:
        """It ended with an error."""
        return self._error is not None

    async def wait(self) -> T:
        """What it ended with, or raises that."""
        if not self.over:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        if self._error is not None:
            raise self._error
        return cast("T", self._result)

    def _wake(self) -> None:
        self.over = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()
