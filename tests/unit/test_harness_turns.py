"""How dear `make test` is, and that it leaves nothing out which `make fast` does not load."""

from pathlib import Path

import pytest

from tests.harness_turns import APART, TURNS, most_of

ROOT = Path(__file__).parents[2]


def test_make_test_takes_no_more_turns_of_a_real_harness_than_it_says(pytestconfig: pytest.Config) -> None:
    """Counted are the marks of the tests that were collected; each test is held to its mark when it runs."""
    turns = pytestconfig.stash[TURNS]
    assert {name: count for name, count in turns.items() if count > most_of(name)} == {}


def test_what_the_fast_set_does_not_load_is_run_behind_it() -> None:
    recipes = (ROOT / "Makefile").read_text()
    assert '-m "not apart and not crash' in recipes
    assert '-m "(apart or crash' in recipes


def test_each_module_that_is_apart_exists() -> None:
    assert {path.stem for path in (ROOT / "tests").rglob("test_*.py")} >= APART
