"""The user's own rules for Codex, as the real program reads what a session makes of them."""

import json
import subprocess
from pathlib import Path

import pytest

from outlast.adapters.codex.user import bring_user_files
from outlast.adapters.codex.versions import installed
from outlast.errors import HarnessError

RULES = """
# prefix_rule: what I allow
prefix_rule(["printf"], "allow", ["printf x"])
mine = prefix_rule
mine(pattern = ["ls"])
prefix_rule(
    pattern = ["git", ["push", "fetch"]],
    decision = "forbidden",
    justification = "Ask me.",
)
prefix_rule(pattern = ["make"], decision = "prompt", match = ["make all"])
"""


def brought(tmp_path: Path, rules: bytes) -> Path:
    """The `CODEX_HOME` of a session whose user has these rules."""
    own, session = tmp_path / "own", tmp_path / "session"
    (own / "rules").mkdir(parents=True)
    session.mkdir()
    (own / "AGENTS.md").write_text("Be kind.")
    (own / "rules" / "default.rules").write_bytes(rules)
    (own / "rules" / "notes.txt").write_text("no rules")
    bring_user_files(session, {"CODEX_HOME": str(own)})
    return session


@pytest.mark.harness(harness="codex", turns=0)
@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("printf x", "prompt"),
        ("ls -l", "prompt"),
        ("git push", "forbidden"),
        ("make", "prompt"),
        ("cat", None),
    ],
)
def test_what_a_user_s_rule_allows_is_asked_and_what_it_forbids_stays_forbidden(
    tmp_path: Path, command: str, decision: str | None
) -> None:
    (rules,) = (brought(tmp_path, RULES.encode()) / "rules").iterdir()
    asked = [str(installed().program), "execpolicy", "check", "--rules", str(rules), "--", *command.split()]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout).get("decision") == decision


def test_what_the_user_has_written_comes_along(tmp_path: Path) -> None:
    assert (brought(tmp_path, RULES.encode()) / "AGENTS.md").read_text() == "Be kind."


def test_rules_that_cannot_be_read_let_nothing_begin(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"default\.rules cannot be read"):
        brought(tmp_path, b"\xff")
