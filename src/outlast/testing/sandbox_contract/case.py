"""What a case of the contract is, and what it asks of whoever wants to run it."""

import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import anyio

from outlast.sandbox import Ability, Ref, SandboxProvider, Spec

CASE_LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How another process makes the same provider: `opener(*arguments)` is a `SandboxProvider`."""

    opener: str
    """`module:function`."""
    arguments: tuple[str, ...]


class Ground(Protocol):
    """Where one case makes boxes: fresh, and empty again when the case has ended."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What its provider can do; it says the same."""
        ...

    @property
    def spec(self) -> Spec:
        """A box as the cases want it, under a name that nobody has; `idle_s` and the like are theirs to change."""
        ...

    def provider(self) -> SandboxProvider:
        """One more, as another worker would have."""
        ...

    def recipe(self) -> Recipe | None:
        """How another process makes it; None where that cannot be."""
        ...

    async def kill_supervisor(self, ref: Ref) -> None:
        """SIGKILL to the supervisor inside, from outside."""
        ...

    async def left(self, ref: Ref) -> Sequence[str]:
        """What is left of a box on the provider's machine, as texts for a reader: processes, mounts, sockets."""
        ...


GroundFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Ground]]


@dataclass(frozen=True, slots=True)
class Case:
    """One promise of the port, as a test that needs nothing but a ground."""

    name: str
    needs: frozenset[Ability]
    apart: bool
    """It needs another process: a recipe."""
    run: Callable[[Ground], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str
    """Of a failed case the traceback, of a skipped one what the provider lacks."""
    seconds: float


def promise(*needs: Ability, apart: bool = False) -> Callable[[Callable[[Ground], Awaitable[None]]], Case]:
    """Make a case of a function. Its name is the promise; `needs` is what a provider may lack."""

    def make(run: Callable[[Ground], Awaitable[None]]) -> Case:
        return Case(run.__name__, frozenset(needs), apart, run)

    return make


def lacking(case: Case, ground: Ground) -> str:
    """What the ground lacks to be held to the case, as text; empty if nothing."""
    lacks: list[str] = sorted(case.needs - ground.abilities)
    if case.apart and ground.recipe() is None:
        lacks.append("a recipe for other processes")
    return ", ".join(lacks)


async def run_case(case: Case, factory: GroundFactory) -> CaseResult:
    """Run one case on a fresh ground."""
    began = time.perf_counter()
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    detail = ""
    try:
        with anyio.fail_after(CASE_LIMIT_S):
            async with factory() as ground:
                if detail := lacking(case, ground):
                    outcome = "skipped"
                else:
                    await case.run(ground)
    except Exception:  # noqa: BLE001 the result carries it
        outcome, detail = "failed", traceback.format_exc()
    return CaseResult(case.name, outcome, detail, time.perf_counter() - began)


async def run_cases(
    cases: Sequence[Case], factory: GroundFactory, only: str | None = None
) -> list[CaseResult]:
    """Run the cases whose name holds `only`, one after the other."""
    return [await run_case(case, factory) for case in cases if only is None or only in case.name]
