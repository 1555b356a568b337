"""The contract of the World port, for every implementation: ours, and those of others.

`CASES` are the promises of the docstrings in `outlast.world`, each as a named case. A World is held to them with no
more than a factory of fresh stores and without any test framework:

    results = anyio.run(run_contract, make_store)
    failed = [result for result in results if result.outcome == "failed"]

A case that needs what the World does not claim among its capabilities is `skipped`, and says what is lacking.
"""

from typing import Final

from outlast.testing.cases import CaseResult, Recipe
from outlast.testing.world_contract import (
    drop_cases,
    follow_cases,
    fork_cases,
    inbox_cases,
    lease_cases,
    log_cases,
    order_cases,
    queue_cases,
    session_cases,
    spent_cases,
    store_cases,
    stored_cases,
)
from outlast.testing.world_contract.case import (
    Case,
    Store,
    StoreFactory,
    lacking,
    run_case,
)

CASES: Final[tuple[Case, ...]] = (
    *log_cases.CASES,
    *queue_cases.CASES,
    *lease_cases.CASES,
    *order_cases.CASES,
    *inbox_cases.CASES,
    *follow_cases.CASES,
    *drop_cases.CASES,
    *session_cases.CASES,
    *spent_cases.CASES,
    *fork_cases.CASES,
    *store_cases.CASES,
    *stored_cases.CASES,
)


async def run_contract(factory: StoreFactory, only: str | None = None) -> list[CaseResult]:
    """Hold the stores that `factory` makes to every case whose name holds `only`, one after the other."""
    return [await run_case(case, factory) for case in CASES if only is None or only in case.name]


__all__ = [
    "CASES",
    "Case",
    "CaseResult",
    "Recipe",
    "Store",
    "StoreFactory",
    "lacking",
    "run_case",
    "run_contract",
]
