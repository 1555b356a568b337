import subprocess
import sys
import time
import types

import pytest

import outlast

HEAVY = (
    *("httpx", "mcp", "starlette", "apsw", "uvicorn", "rich", "click", "tree_sitter"),
    *("agents", "claude_agent_sdk", "langchain_core", "langgraph", "pydantic", "pydantic_ai"),
)
LIMIT_S = 0.4
"""150 ms are promised on a quiet machine; one that runs the other tests as well is given more."""


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_exported_names_are_sorted_and_exist() -> None:
    assert outlast.__all__ == sorted(outlast.__all__)
    assert all(getattr(outlast, name) is not None for name in outlast.__all__)
    assert dir(outlast) == outlast.__all__


@pytest.mark.parametrize("name", outlast.__all__)
def test_an_exported_name_is_documented(name: str) -> None:
    member = getattr(outlast, name)
    if not isinstance(member, types.UnionType):  # a union has the documentation of its members
        assert (member.__doc__ or "").strip()
        assert not member.__doc__.startswith(f"{name}(")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sessions'"):
        outlast.Sessions  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - so it is


@pytest.mark.crash
@pytest.mark.parametrize("first", ["outlast.tool", "outlast.session", "outlast.adapter"])
def test_the_decorator_is_not_hidden_by_its_module(first: str) -> None:
    assert _python(f"import {first}; from outlast import tool; print(type(tool).__name__)") == "function\n"


def test_importing_outlast_loads_nothing_heavy() -> None:
    loaded = _python("import sys, outlast; print(*sys.modules)").split()
    assert not {module.partition(".")[0] for module in loaded} & set(HEAVY)


def test_what_every_worker_loads_is_of_no_framework() -> None:
    code = "import sys; from outlast.cli.agents import all_agents; all_agents([]); print(*sys.modules)"
    frameworks = {"agents", "langchain_core", "langgraph", "pydantic_ai"}
    assert not {module.partition(".")[0] for module in _python(code).split()} & frameworks


@pytest.mark.crash
def test_importing_outlast_is_quick() -> None:
    code = "import time; began = time.perf_counter(); import outlast; print(time.perf_counter() - began)"
    deadline = time.monotonic() + 20
    quickest = LIMIT_S + 1
    while quickest > LIMIT_S and time.monotonic() < deadline:
        quickest = min(quickest, float(_python(code)))
    print(f"import outlast: {quickest * 1000:.0f} ms")  # noqa: T201 - shown with -s, and when it fails
    assert quickest <= LIMIT_S
