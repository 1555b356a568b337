"""Turns of the real harnesses, which are dear: `make test` takes a bounded number of each, `make test-all` any."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

MOST = 14
"""Of one harness in `make test`: the core of the contract, and a few that are its alone."""
MOST_OF_ALL = 25
"""Of Claude Code, by which the engine, the command line and the demo are tried as well."""
TURNS = pytest.StashKey[Counter[str]]()
"""How many turns of each harness the collected tests take in `make test`."""


def most_of(harness: str) -> int:
    """How many turns of a harness `make test` takes at most."""
    return MOST_OF_ALL if harness == "claude-code" else MOST


def turns_of(item: pytest.Item) -> int:
    """How many turns a test takes in `make test`: as many as its mark says, `harness(turns=2)`, else one."""
    mark = item.get_closest_marker("harness")
    if mark is None or item.get_closest_marker("full") is not None:
        return 0
    return int(mark.kwargs.get("turns", 1))


def harness_of(item: pytest.Item) -> str:
    """Which harness it runs: the one that its mark names, `harness(harness="codex")`, else Claude Code."""
    mark = item.get_closest_marker("harness")
    return "claude-code" if mark is None else str(mark.kwargs.get("harness", "claude-code"))


APART = frozenset(
    {
        "test_acp_driver",
        "test_acp_files",
        "test_acp_names",
        "test_acp_providers",
        "test_assistant_asking",
        "test_drive_stores",
        "test_framework_ids",
        "test_function_runner",
        "test_adapters",
        "test_gateway_clouds",
        "test_langgraph",
        "test_langgraph_turns",
        "test_models_asking",
        "test_openai_agents",
        "test_openai_agents_within",
        "test_pydantic_ai",
        "test_sdk_clerk",
        "test_harness_turns",
    }
)
"""Modules that load agent frameworks or SDKs, which each process of the fast set would do for seconds."""
FOLDERS = frozenset({"acceptance", "examples"})
"""What is in them runs whole programs, or is as users write it: with the SDK of a provider."""


def is_apart(path: Path) -> bool:
    """Whether `make fast` does not even load this file; `make test` runs all that is in it."""
    return path.suffix == ".py" and (path.stem in APART or path.parent.name in FOLDERS)


def count_turns(items: Iterable[pytest.Item]) -> Counter[str]:
    """The turns of each harness in these tests."""
    turns = Counter[str]()
    for item in items:
        turns[harness_of(item)] += turns_of(item)
    return turns
