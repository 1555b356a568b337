"""Sandboxes as workspaces of an ordinary user: what root may do hides what others may not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandboxes.as_user import become_user

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap"),
]


@pytest.mark.parametrize(
    "only",
    [
        "is_captured",
        "commands_and_files",
        pytest.param("", marks=[pytest.mark.full, pytest.mark.timeout(240)]),
    ],
)
def test_sandboxes_of_an_ordinary_user(only: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sandboxes.sites", only],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={"PATH": os.environ["PATH"], "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=become_user,
        timeout=230,
    )
    assert ran.returncode == 0, ran.stderr
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert told
    assert [one["detail"] for one in told if one["outcome"] == "failed"] == []
