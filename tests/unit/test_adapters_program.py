"""What the adapters of programs have alike."""

import pytest

from outlast.adapters.program import overridden, past_proxies, untested, user_home
from outlast.records.kinds import Policy


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_a_programs_way_to_the_gateway_leads_past_proxies_and_whom_its_user_named_stays(name: str) -> None:
    told = past_proxies({name: "registry.example,localhost", "HTTPS_PROXY": "http://proxy.example"})

    assert told == dict.fromkeys(("NO_PROXY", "no_proxy"), "registry.example,127.0.0.1,localhost,::1")


def test_without_a_word_of_the_user_the_gateway_is_past_proxies_all_the_same() -> None:
    assert past_proxies({}) == dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1")


def test_an_exact_name_goes_before_patterns_and_these_in_their_order() -> None:
    own: dict[str, Policy] = {"mcp__git*": "safe", "mcp__github__push": "never", "mcp__*": "keyed"}

    assert overridden("mcp__github__push", own) == "never"
    assert overridden("mcp__github__get", own) == "safe"
    assert overridden("mcp__jira__get", own) == "keyed"
    assert overridden("Bash", own) is None
    assert overridden("Bash", None) is None


def test_only_of_a_version_that_is_not_tested_the_user_is_told() -> None:
    assert untested("Pi", "1.6.0", ("1.5.0", "1.6.0"), "events", "outlast install pi") is None
    told = untested("Pi", "1.7.0", ("1.5.0", "1.6.0"), "events", "outlast install pi")
    assert told is not None
    assert "Pi 1.7.0" in told
    assert "1.5.0, 1.6.0" in told
    assert "`outlast install pi`" in told


def test_an_empty_home_is_none() -> None:
    assert user_home({"HOME": ""}) is None
    assert user_home({}) is None
