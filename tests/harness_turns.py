"""Turns of the real harness, which are dear: `make test` takes a bounded number of them, `make test-all` any."""

import pytest

MOST = 25
"""In `make test`."""
TURNS = pytest.StashKey[int]()
"""How many the collected tests take in `make test`."""


def turns_of(item: pytest.Item) -> int:
    """How many turns a test takes in `make test`: as many as its mark says, `harness(turns=2)`, else one."""
    mark = item.get_closest_marker("harness")
    if mark is None or item.get_closest_marker("full") is not None:
        return 0
    return int(mark.kwargs.get("turns", 1))
