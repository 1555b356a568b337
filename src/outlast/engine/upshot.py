"""What an attempt's adapter came to, when neither it nor the reader of the inbox runs any more."""

import asyncio
from typing import TypeAlias

from outlast.adapter import TurnResult, Waiting
from outlast.engine.effects import described
from outlast.errors import AttemptLost, HarnessError, OutlastError, TurnStopped
from outlast.groups import leaves

End: TypeAlias = TurnResult | Waiting


def upshot(driver: "asyncio.Task[End]", watcher: "asyncio.Task[None]") -> End | OutlastError | None:
    """What the driver came to. A failure of the watcher is raised, one of the harness is returned."""
    if watcher.done() and not watcher.cancelled():
        failure = watcher.exception()
        if failure is not None and not isinstance(failure, AttemptLost):
            raise failure
    if driver.cancelled():
        return None
    error = driver.exception()
    return driver.result() if error is None else _failure(error)


def _failure(error: BaseException) -> OutlastError | None:
    """What an adapter raised, as the attempt's failure; None when the attempt was meant to end."""
    found = list(leaves(error))  # an adapter may have task groups of its own
    if any(isinstance(leaf, AttemptLost | TurnStopped) for leaf in found):
        return None
    for leaf in found:
        if not isinstance(leaf, Exception | asyncio.CancelledError):
            raise leaf
    first = found[0]
    return (
        first
        if isinstance(first, OutlastError)
        else HarnessError(harness="the adapter", reason=described(error))
    )
