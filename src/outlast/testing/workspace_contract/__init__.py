"""The contract of sites (`outlast.workspace.Site`), for every kind of workspace: ours, and those of others.

`CASES` are the promises of that port's docstrings, each as a named case. A kind is held to them with no more than a
factory of grounds for one session each, and without any test framework:

    results = anyio.run(run_contract, make_ground)
    failed = [result for result in results if result.outcome == "failed"]

A case that needs a trait that the kind does not claim is `skipped`, and says which.
"""

from typing import Final

from outlast.testing.cases import CaseResult
from outlast.testing.workspace_contract import capture_cases, file_cases, run_cases, standing_cases
from outlast.testing.workspace_contract.case import (
    Case,
    Ground,
    GroundFactory,
    Log,
    Stand,
    Trait,
    lacking,
    run_case,
)

CASES: Final[tuple[Case, ...]] = (
    *file_cases.CASES,
    *run_cases.CASES,
    *capture_cases.CASES,
    *standing_cases.CASES,
)


async def run_contract(factory: GroundFactory, only: str | None = None) -> list[CaseResult]:
    """Hold the sites of the grounds that `factory` makes to every case whose name holds `only`, one after the other."""
    return [await run_case(case, factory) for case in CASES if only is None or only in case.name]


__all__ = [
    "CASES",
    "Case",
    "CaseResult",
    "Ground",
    "GroundFactory",
    "Log",
    "Stand",
    "Trait",
    "lacking",
    "run_case",
    "run_contract",
]
