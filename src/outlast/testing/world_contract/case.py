"""What a case of the contract is, and what it asks of whoever wants to run it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from outlast.testing import cases
from outlast.testing.cases import CaseResult, Recipe, tried
from outlast.world import Capability, World


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
        """How another process opens it, as an async context manager of a World; None where that cannot be."""
        ...


StoreFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]


class Case(cases.Case[Store, Capability]):
    """One promise of the World port, as a test that needs nothing but a store."""


def promise(*needs: Capability) -> Callable[[Callable[[Store], Awaitable[None]]], Case]:
    """Make a case of a function. Its name is the promise; `needs` is what a World may lack."""
    return lambda run: Case(run.__name__, frozenset(needs), run)


def lacking(case: Case, store: Store) -> str:
    """What the store lacks to be held to the case, as text; empty if nothing."""
    return ", ".join(case.lacks(store.capabilities))


async def run_case(case: Case, factory: StoreFactory) -> CaseResult:
    """Run one case on a fresh store."""
    return await tried(case.name, factory, lambda store: lacking(case, store), case.run)
