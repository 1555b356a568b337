"""Contracts as lists of named cases, and how one is run without any test framework."""

import time
import traceback
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

import anyio

CASE_LIMIT_S: Final = 60.0

Need = TypeVar("Need", bound=str)
"""What not everybody who keeps the contract can do."""
Given = TypeVar("Given")
"""What a case works with."""
Ground = TypeVar("Ground")
"""Where cases are tried."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How another process comes by the same: what `opener(*arguments)` gives."""

    opener: str
    """`module:function`."""
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case(Generic[Given, Need]):
    """One promise, as a test that needs nothing but what it is given. Its name says the promise."""

    name: str
    needs: frozenset[Need]
    run: Callable[[Given], Awaitable[None]]

    def lacks(self, able: Collection[Need]) -> list[str]:
        """What it needs beyond this, in order."""
        return sorted(self.needs.difference(able))


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str
    """Of a failed case the traceback, of a skipped one what is lacking."""
    seconds: float


async def tried(
    name: str,
    fresh: Callable[[], AbstractAsyncContextManager[Ground]],
    lacks: Callable[[Ground], str],
    run: Callable[[Ground], Awaitable[None]],
) -> CaseResult:
    """Try a case on a ground of its own, within `CASE_LIMIT_S`.

    Args:
        name: the case's.
        fresh: makes the ground.
        lacks: what the ground lacks for the case, as text; empty if nothing. Then it is not run.
        run: the case.
    """
    began = time.perf_counter()
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    detail = ""
    try:
        with anyio.fail_after(CASE_LIMIT_S):
            async with fresh() as ground:
                if detail := lacks(ground):
                    outcome = "skipped"
                else:
                    await run(ground)
    except Exception:  # noqa: BLE001 the result carries it
        outcome, detail = "failed", traceback.format_exc()
    return CaseResult(name, outcome, detail, time.perf_counter() - began)
