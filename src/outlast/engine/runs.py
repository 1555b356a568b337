"""The functions that run for the calls of one attempt: each in a task of its own, which whoever asks joins."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from outlast.calls import ToolResult
from outlast.engine.ending import Ending


class Runs:
    """What runs. Whoever has one awaits `stop` at the end.

    Args:
        eased: called whenever one has ended, however it did.
    """

    def __init__(self, eased: Callable[[], None]) -> None:
        self._eased = eased
        self._running: dict[int, tuple[asyncio.Task[None], Ending[ToolResult]]] = {}
        self._paused: set[int] = set()

    @property
    def busy(self) -> bool:
        """Something runs that does not merely pause before it begins once more."""
        return any(call not in self._paused and not task.done() for call, (task, _) in self._running.items())

    @property
    def under_way(self) -> bool:
        """Something has begun and not ended; what pauses before it begins once more is under way as well."""
        return any(not task.done() for task, _ in self._running.values())

    def find(self, call: int) -> Ending[ToolResult] | None:
        """The run of a call, as long as it lasts; one that failed stays."""
        found = self._running.get(call)
        return None if found is None else found[1]

    def begin(self, call: int, job: Callable[[], Awaitable[ToolResult]]) -> Ending[ToolResult]:
        """Let the run of a call begin: it goes on to its end, or until `stop`, whoever waits for it."""
        ending: Ending[ToolResult] = Ending()
        task = asyncio.get_running_loop().create_task(_to_its_end(ending, job))

        def ended(_: "asyncio.Task[None]") -> None:
            # A task that is cancelled before its first step does not run at all, and would leave everybody waiting.
            ending.fail(asyncio.CancelledError())
            if not ending.failed:  # its outcome is durable: from now on it is read from the log
                del self._running[call]
            self._eased()

        task.add_done_callback(ended)
        self._running[call] = task, ending
        return ending

    @contextmanager
    def pausing(self, call: int) -> Generator[None]:
        """The run of a call waits, and nothing of it happens."""
        self._paused.add(call)
        try:
            yield
        finally:
            self._paused.discard(call)

    async def stop(self, patience_s: float | None) -> bool:
        """Cancel everything that runs and wait until it has ended: nothing may run on beneath another worker.

        Args:
            patience_s: how long to wait for those that do not let themselves be cancelled; None for ever.

        Returns whether all have ended.
        """
        running = [task for task, _ in self._running.values() if not task.done()]
        for task in running:
            task.cancel()
        if not running:
            return True
        _, left = await asyncio.wait(running, timeout=patience_s)
        return not left


async def _to_its_end(ending: Ending[ToolResult], job: Callable[[], Awaitable[ToolResult]]) -> None:
    try:
        ending.end(await job())
    except (asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
        ending.fail(error)
        raise
    except BaseException as error:  # noqa: BLE001 - handed to everybody who waits
        ending.fail(error)
