"""`outlast wrap` at a terminal of a stage's, and `kill -9` of all of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from outlast.testing.adapter_contract.promises import processes_of
from outlast.testing.adapter_contract.stage import Stage
from tests.acceptance.tmux import LIMIT_S, Tmux, at_tmux

WRAP = (sys.executable, "-P", "-m", "outlast.cli", "wrap")


def environ(stage: Stage) -> dict[str, str]:
    """What a user has set who asks the stage's model."""
    return {
        "OUTLAST_WORLD": stage.url,
        "OUTLAST_DATA_DIR": str(stage.data),
        "ANTHROPIC_BASE_URL": stage.models.base_url,
        "ANTHROPIC_API_KEY": "none",
        "OPENAI_BASE_URL": f"{stage.models.base_url}/v1",
        "OPENAI_API_KEY": "none",
        "SHELL": "/bin/sh",
    }


@contextmanager
def wrapped(stage: Stage, *words: str) -> Generator[Tmux]:
    """`outlast wrap` at a terminal."""
    with at_tmux([*WRAP, *words], env=environ(stage), cwd=stage.shop) as tmux:
        yield tmux


def kill_all(stage: Stage) -> None:
    """`kill -9` of supervisor, worker, harness, what that started, and the terminal."""
    for pid in processes_of(stage.data, stage.shop):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def refused(*words: str) -> str:
    """What `outlast wrap` says that does not start."""
    done = subprocess.run(
        [*WRAP, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr
