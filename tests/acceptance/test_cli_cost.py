"""`outlast cost` over real workers that were really killed."""

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest

from tests.acceptance.counter import TILL, Counter, opened, rings, script
from tests.acceptance.terminals import LIMIT_S

pytestmark = pytest.mark.crash


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        yield counter


def asks(text: str) -> dict[str, Any]:
    """The model says this, at a price."""
    usage = {"input_tokens": 1000, "output_tokens": 20, "cache_read_tokens": 300, "cost_usd": 0.25}
    return {"do": "model", "text": text, "usage": usage}


def test_what_was_spent_saved_and_stored_is_told(counter: Counter) -> None:
    prompt = script(asks("one"), rings(counter), asks("two"))
    counter.outlast("run", TILL, prompt, "--session", "s1", "--detach")
    with counter.started("work", TILL) as work:
        os.kill(counter.bell.rung().pid, signal.SIGKILL)
        work.wait(LIMIT_S)
    with counter.started("work", TILL, "--until-idle") as work:
        counter.bell.rung().answer("done")
        assert work.wait(LIMIT_S) == 0

    session, total = counter.json("cost")
    assert [session["session"], total["sessions"]] == ["s1", 1]
    assert (total["usage"]["cost_usd"], total["usage"]["output_tokens"], total["takeovers"]) == (0.5, 40, 1)
    assert total["saved_against_starting_over"]["usage"]["cost_usd"] == 0.25
    assert total["saved_against_own_continue"]["estimate"] is True
    assert session["stored"]["bytes"] > session["stored"]["blob_bytes"] > 0
    lines = counter.outlast("cost", "s1", "--by", "turn").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["session", "s1", "total"]
    assert lines[1].split()[1:3] == ["1", "done"]
    assert "$0.5000" in lines[-1]
    assert len({len(line) for line in lines}) == 1
    day, _ = counter.json("cost", "--by", "day")
    assert day["usage"] == total["usage"]


def test_of_a_session_that_is_not_there_it_says_so(counter: Counter) -> None:
    assert "nobody" in counter.outlast("cost", "nobody", status=3).stderr
    assert "Nothing has cost anything" in counter.outlast("cost").stderr
