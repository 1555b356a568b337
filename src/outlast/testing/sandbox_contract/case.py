"""What a case of the contract is, and what it asks of whoever wants to run it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from outlast.sandbox import Ability, Ref, SandboxProvider, Spec
from outlast.testing import cases
from outlast.testing.cases import CaseResult, Recipe, tried


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
        """How another process makes such a provider; None where that cannot be."""
        ...

    async def kill_supervisor(self, ref: Ref) -> None:
        """SIGKILL to the supervisor inside, from outside."""
        ...

    async def left(self, ref: Ref) -> Sequence[str]:
        """What is left of a box on the provider's machine, as texts for a reader: processes, mounts, sockets."""
        ...


GroundFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Ground]]


@dataclass(frozen=True, slots=True)
class Case(cases.Case[Ground, Ability]):
    """One promise of the port, as a test that needs nothing but a ground."""

    apart: bool = False
    """It needs another process: a recipe."""


def promise(*needs: Ability, apart: bool = False) -> Callable[[Callable[[Ground], Awaitable[None]]], Case]:
    """Make a case of a function. Its name is the promise; `needs` is what a provider may lack."""
    return lambda run: Case(run.__name__, frozenset(needs), run, apart)


def lacking(case: Case, ground: Ground) -> str:
    """What the ground lacks to be held to the case, as text; empty if nothing."""
    alone = case.apart and ground.recipe() is None
    return ", ".join(case.lacks(ground.abilities) + ["a recipe for other processes"] * alone)


async def run_case(case: Case, factory: GroundFactory) -> CaseResult:
    """Run one case on a fresh ground."""
    return await tried(case.name, factory, lambda ground: lacking(case, ground), case.run)
