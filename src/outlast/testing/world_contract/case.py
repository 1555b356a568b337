"""What a case of the contract is, and what it asks of whoever wants to run it."""

import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import anyio

from outlast.world import Capability, World

CASE_LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How another process opens the same store: `opener(*arguments)` is an async context manager of a World."""

    opener: str
    """`module:function`."""
    arguments: tuple[str, ...]


class Store(Protocol):
    """A store that one case may use up: fresh, empty, and gone when the case has ended."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What its Worlds can do; they say the same."""
        ...

    def open(self) -> AbstractAsyncContextManager[World]:
        """One more handle on it, as another worker would have; also when all others have been closed."""
        ...

    async def turn(self, seconds: float) -> None:
        """Let its clock go on by `seconds`: turn it, or wait."""
        ...

    def recipe(self) -> Recipe | None:
        """How another process opens it; None where that cannot be."""
        ...


StoreFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]


@dataclass(frozen=True, slots=True)
class Case:
    """One promise of the World port, as a test that needs nothing but a store."""

    name: str
    needs: frozenset[Capability]
    run: Callable[[Store], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str
    """Of a failed case the traceback, of a skipped one what the World lacks."""
    seconds: float


def promise(*needs: Capability) -> Callable[[Callable[[Store], Awaitable[None]]], Case]:
    """Make a case of a function. Its name is the promise; `needs` is what a World may lack."""

    def make(run: Callable[[Store], Awaitable[None]]) -> Case:
        return Case(run.__name__, frozenset(needs), run)

    return make


def lacking(case: Case, store: Store) -> str:
    """What the store lacks to be held to the case, as text; empty if nothing."""
    return ", ".join(sorted(case.needs - store.capabilities))


async def run_case(case: Case, factory: StoreFactory) -> CaseResult:
    """Run one case on a fresh store."""
    began = time.perf_counter()
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    detail = ""
    try:
        with anyio.fail_after(CASE_LIMIT_S):
            async with factory() as store:
                if detail := lacking(case, store):
                    outcome = "skipped"
                else:
                    await case.run(store)
    except Exception:  # noqa: BLE001 the result carries it
        outcome, detail = "failed", traceback.format_exc()
    return CaseResult(case.name, outcome, detail, time.perf_counter() - began)


async def run_cases(
    cases: Sequence[Case], factory: StoreFactory, only: str | None = None
) -> list[CaseResult]:
    """Run the cases whose name holds `only`, one after the other."""
    return [await run_case(case, factory) for case in cases if only is None or only in case.name]
