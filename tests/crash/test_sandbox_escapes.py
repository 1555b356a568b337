"""Nothing gets out of a sandbox: every escape that was tried, from boxes of an ordinary user and of root."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandboxes.as_user import become_user
from tests.sandboxes.escapes import ESCAPES, Escape
from tests.sandboxes.escaping import SECRET

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap"),
]


@pytest.fixture(scope="module", params=["user", "root"] if os.geteuid() == 0 else ["user"])
def said(request: pytest.FixtureRequest) -> dict[str, dict[str, str]]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sandboxes.escaping"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={"PATH": os.environ["PATH"], "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=become_user if request.param == "user" else None,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stderr
    return {(facts := json.loads(line))["name"]: facts for line in ran.stdout.splitlines()}


@pytest.mark.parametrize("escape", ESCAPES, ids=[escape.name for escape in ESCAPES])
def test_no_program_inside(escape: Escape, said: dict[str, dict[str, str]]) -> None:
    inside, outside = said[escape.name]["said"], said[escape.name]["control"]
    assert inside.strip().endswith("status 0"), inside
    assert "tried all" in inside, inside
    assert "ESCAPED" not in inside
    assert SECRET not in inside
    if escape.controlled:
        assert "ESCAPED" in outside, outside


def test_who_kills_all_that_it_sees_kills_its_own_jobs_alone(said: dict[str, dict[str, str]]) -> None:
    assert said["neighbour"]["said"] == "killer 137 sleeper 0 after 0"
