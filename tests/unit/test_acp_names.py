"""Which names of an ACP agent mean a tool of the application's."""

import pytest

from outlast.adapters.acp.dialogue import names_ours


@pytest.mark.parametrize(
    "name",
    ["outlast_charge", "outlast__charge", "outlast.charge", "mcp__outlast__charge", "mcp.outlast.charge"],
)
def test_a_tool_of_the_server_of_ours_is_known_by_its_name(name: str) -> None:
    assert names_ours(name, "charge")
    assert names_ours(name, "charge", bare=False)


@pytest.mark.parametrize(
    "name", ["charge", "echo outlast_charge", "./outlast_charge", "outlast charge", "outlast_recharge"]
)
def test_what_an_agent_shows_of_a_call_of_its_own_is_no_tool_of_ours(name: str) -> None:
    assert not names_ours(name, "charge", bare=False)


def test_a_bare_name_is_ours_only_where_the_model_says_it() -> None:
    assert names_ours("charge", "charge")
    assert names_ours("mcp__outlast__outlast_wait", "outlast_wait", bare=False)
