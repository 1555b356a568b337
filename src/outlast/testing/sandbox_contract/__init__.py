"""The contract of the port of sandboxes, for every provider: ours, and those of others.

`CASES` are the promises of the docstrings in `outlast.sandbox`, each as a named case. A provider is held to them with
no more than a factory of grounds on which it makes boxes, and without any test framework:

    results = anyio.run(run_contract, make_ground)
    failed = [result for result in results if result.outcome == "failed"]

A case that needs what the provider does not claim among its abilities is `skipped`, and says what is lacking. Boxes
need `sh`, `sleep`, `cat`, `seq` and `python3`.
"""

from typing import Final

from outlast.testing.cases import CaseResult, Recipe
from outlast.testing.sandbox_contract import (
    fence_cases,
    file_cases,
    job_cases,
    life_cases,
    limit_cases,
    way_cases,
)
from outlast.testing.sandbox_contract.case import (
    Case,
    Ground,
    GroundFactory,
    lacking,
    run_case,
)

CASES: Final[tuple[Case, ...]] = (
    *job_cases.CASES,
    *file_cases.CASES,
    *fence_cases.CASES,
    *life_cases.CASES,
    *way_cases.CASES,
    *limit_cases.CASES,
)


async def run_contract(factory: GroundFactory, only: str | None = None) -> list[CaseResult]:
    """Hold the provider on the grounds of `factory` to every case whose name holds `only`, one after the other."""
    return [await run_case(case, factory) for case in CASES if only is None or only in case.name]


__all__ = [
    "CASES",
    "Case",
    "CaseResult",
    "Ground",
    "GroundFactory",
    "Recipe",
    "lacking",
    "run_case",
    "run_contract",
]
