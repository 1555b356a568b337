"""Every sandbox provider that needs no service, held to every case of the contract, as root and as an ordinary user."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.testing.sandbox_contract import CASES, Case, CaseResult, lacking
from tests.sandboxes.as_user import become_user
from tests.sandboxes.grounds import on_bubblewrap

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap"),
]
AS_USER = CASES if os.geteuid() == 0 else ()  # else all of them are an ordinary user's anyway


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_bubblewrap_keeps(case: Case) -> None:
    async with on_bubblewrap() as ground:
        assert not lacking(case, ground)
        await case.run(ground)


@pytest.fixture(scope="module")
def as_user() -> dict[str, CaseResult]:
    program = [sys.executable, "-m", "tests.sandboxes.as_user"]
    ran = subprocess.run(
        program,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={"PATH": os.environ["PATH"], "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=become_user,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    results = [CaseResult(**json.loads(line)) for line in ran.stdout.splitlines()]
    return {result.name: result for result in results}


@pytest.mark.parametrize("case", AS_USER, ids=[case.name for case in AS_USER])
def test_bubblewrap_keeps_as_a_user(case: Case, as_user: dict[str, CaseResult]) -> None:
    result = as_user[case.name]
    assert result.outcome == "passed", result.detail
