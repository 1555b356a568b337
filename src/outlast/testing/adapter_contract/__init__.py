"""The contract of adapters: what must hold of a harness, tried with its real program and a scripted model.

`CASES` are the promises, each as a named case. A harness is held to them with no more than a `Subject` and without any
test framework:

    results = anyio.run(run_contract, SUBJECT)
    failed = [result for result in results if result.outcome == "failed"]

Workers are processes, and what kills them is SIGKILL. A case that a subject says it lacks is `lacking`, and says why.
"""

from typing import Final

from outlast.testing.adapter_contract import (
    attachment_cases,
    edit_cases,
    fork_cases,
    gate_cases,
    inner_cases,
    kill_cases,
    turn_cases,
)
from outlast.testing.adapter_contract.case import (
    Case,
    CaseResult,
    Ground,
    Lacking,
    run_case,
)
from outlast.testing.adapter_contract.stage import Stage, staged
from outlast.testing.adapter_contract.subject import Compaction, Subject

CASES: Final[tuple[Case, ...]] = (
    *turn_cases.CASES,
    *attachment_cases.CASES,
    *fork_cases.CASES,
    *kill_cases.CASES,
    *edit_cases.CASES,
    *inner_cases.CASES,
    *gate_cases.CASES,
)


async def run_contract(subject: Subject, only: str | None = None) -> list[CaseResult]:
    """Hold a subject to every case whose name holds `only`, one after the other."""
    return [await run_case(case, subject) for case in CASES if only is None or only in case.name]


__all__ = [
    "CASES",
    "Case",
    "CaseResult",
    "Compaction",
    "Ground",
    "Lacking",
    "Stage",
    "Subject",
    "run_case",
    "run_contract",
    "staged",
]
