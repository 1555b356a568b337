"""The agent of one harness, for a worker process: its adapter as users have it, and nothing of the tests.

What the adapter is to be set to, a session records when it is opened.
"""

import os
from importlib.metadata import entry_points
from typing import Final

from benchmarks.saying import hold, slow_look
from outlast.adapter import Agent

HARNESS: Final = "OUTLAST_BENCH_HARNESS"
"""The variable that names it to a worker process."""


def __getattr__(name: str) -> Agent:
    """`agent`, which only a worker process asks for."""
    if name != "agent":
        raise AttributeError(name)
    harness = os.environ[HARNESS]
    (found,) = entry_points(group="outlast.adapters", name=harness)
    return Agent(harness, found.load()(), tools=[slow_look, hold])
