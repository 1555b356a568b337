"""An agent for worker processes that calls its tool as fast as it can."""

from itertools import islice

from benchmarks.stage import calling, returning
from benchmarks.texts import random_text

CALLS = 50_000
"""More than a turn gets to make."""
BYTES = 4096

_texts = list(islice(random_text(BYTES), 16))
busy = calling(CALLS, returning(lambda: _texts[0], "safe"), "busy")
