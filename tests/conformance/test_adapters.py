"""Every adapter, held to every case of the contract with its real program."""

from pathlib import Path

import pytest

from outlast.testing.adapter_contract import CASES, Case, Ground, Subject
from outlast.testing.adapter_contract.table import PROMISES, cases_of
from tests.harnesses.page import PAGE, page
from tests.harnesses.subjects import SECOND, SUBJECTS

pytestmark = pytest.mark.timeout(240)


def _marked(case: Case, subject: Subject) -> pytest.MarkDecorator | tuple[pytest.MarkDecorator, ...]:
    dear = pytest.mark.harness(harness=subject.name, turns=case.turns)
    core = case.core and case.name not in subject.lacks and subject.name not in SECOND
    return dear if core else (dear, pytest.mark.full)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("case", "subject"),
    [
        pytest.param(case, subject, marks=_marked(case, subject), id=f"{case.name}-{subject.name}")
        for subject in SUBJECTS
        for case in CASES
    ],
)
async def test_the_harness_keeps_the_promise(case: Case, subject: Subject, tmp_path: Path) -> None:
    ground = Ground(subject, tmp_path)
    if case.name in subject.lacks:
        with pytest.raises(Exception):  # noqa: B017, PT011 - however it shows
            await case.run(ground)
    else:
        await case.run(ground)


def test_each_promise_is_made_once() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_what_a_harness_lacks_is_a_case(subject: Subject) -> None:
    assert set(subject.lacks) <= {case.name for case in CASES}
    assert all(reason.endswith(".") for reason in subject.lacks.values()), "a reason is a sentence"


def test_the_table_of_harnesses_is_what_the_contract_says() -> None:
    assert page() == PAGE.read_text(), "write it anew: python -m tests.harnesses"


def test_each_case_stands_behind_one_row_of_the_table() -> None:
    names = [case.name for case in CASES]
    assert sorted(name for row in PROMISES for name in cases_of(row, names)) == sorted(names)
