"""The user's own permission rules, which no worker may overrule."""

import json
from pathlib import Path

import pytest

from outlast.records import CallOutcome
from outlast.testing.models import Step
from tests.acceptance.shop import effect_command
from tests.acceptance.stage import bash, prompt, says, staged

pytestmark = [pytest.mark.harness, pytest.mark.full, pytest.mark.timeout(240)]

SHELL = {"go": [Step(text="A command.", tools=(bash(effect_command("s", "shell")),)), *says("So be it.")]}


@pytest.mark.parametrize("what", ["Bash", "Bash(printf *)"])
@pytest.mark.parametrize("rule", ["ask", "deny"])
async def test_a_call_that_a_rule_of_the_users_forbids_or_wants_asked_does_not_run(
    tmp_path: Path, rule: str, what: str
) -> None:
    async with staged(tmp_path, SHELL) as stage:
        (stage.shop / ".claude").mkdir()
        (stage.shop / ".claude" / "settings.json").write_text(json.dumps({"permissions": {rule: [what]}}))
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        assert stage.effects().all() == []
        outcomes = [one for one in await stage.of_kind(CallOutcome) if one.lane == "main"]
        assert [one.status for one in outcomes] == ["ok", "error", "ok"]
        await stage.kept()
