"""What the scripts of the peers share: the same 4 KB for every step, and one line of JSON in the end.

Imported from beside a script, in an environment that has neither outlast nor its tests.
"""

import base64
import json
import random
import statistics
import sys
import time
from importlib.metadata import version

BYTES = 4096
SESSIONS = 32
STEPS = 20
LONG = 200
"""Steps one after the other whose pace is measured."""


def url() -> str:
    """The database that is this peer's alone."""
    return sys.argv[1]


def repeats() -> int:
    """How often everything is measured, after one warm-up."""
    return int(sys.argv[2])


_generator = random.Random(1)
_texts = [base64.b85encode(_generator.randbytes(BYTES)).decode()[:BYTES] for _ in range(64)]


def text(number: int) -> str:
    """What a step returns; no compressor gets it small."""
    return _texts[number % len(_texts)]


class Pace:
    """When the steps of one line of them began."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.medians: list[float] = []
        self.rates: list[float] = []

    def step(self) -> None:
        """One begins."""
        self.began.append(time.perf_counter())

    def sequence(self, each: int = 1) -> None:
        """A line has ended; `each` durable steps lie between two that were told."""
        gaps = [(after - before) / each for before, after in zip(self.began, self.began[1:])]  # noqa: B905
        self.medians.append(statistics.median(gaps))
        self.began.clear()

    def many(self, began_s: float, steps: int = SESSIONS * STEPS) -> None:
        """Many lines at once have ended."""
        self.rates.append(steps / (time.perf_counter() - began_s))
        self.began.clear()

    def tell(self, package: str) -> None:
        """Print it, without the warm-up."""
        said = {"version": version(package), "steps_s": self.medians[1:], "rates": self.rates[1:]}
        print(json.dumps(said), flush=True)
