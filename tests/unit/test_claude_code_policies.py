"""What recovery may do about calls of Claude Code's own tools, and which Claude Code it is."""

from pathlib import Path
from typing import Any

import pytest

from outlast.adapters.claude_code.policies import application_tool, policy_of
from outlast.adapters.claude_code.versions import TESTED, Installed, installed
from outlast.errors import HarnessMissing
from outlast.records.kinds import Policy


@pytest.mark.parametrize(
    ("name", "arguments", "policy"),
    [
        ("Read", {"file_path": "/a"}, "safe"),
        ("Grep", {}, "safe"),
        ("Skill", {"skill": "x"}, "safe"),
        ("Agent", {"prompt": "p"}, "safe"),
        ("Task", {"prompt": "p"}, "safe"),
        ("Agent", {"prompt": "p", "run_in_background": True}, "never"),
        ("Edit", {}, "verify"),
        ("Write", {}, "verify"),
        ("NotebookEdit", {}, "verify"),
        ("WebFetch", {"url": "http://x"}, "never"),
        ("mcp__github__create_issue", {}, "never"),
        ("Unheard", {}, "never"),
        ("Bash", {"command": "git status"}, "safe"),
        ("Bash", {"command": "git push"}, "verify"),
        ("Bash", {"command": "git push", "run_in_background": True}, "never"),
        ("Bash", {"command": "npm publish"}, "never"),
        ("Bash", {"command": "ls", "run_in_background": True}, "never"),
        ("Bash", {"command": 7}, "never"),
        ("Bash", {}, "never"),
    ],
)
def test_a_tool_is_never_run_again_unless_it_is_known_to_only_look(
    name: str, arguments: dict[str, Any], policy: Policy
) -> None:
    assert policy_of(name, arguments) == policy


def test_a_user_may_say_otherwise_by_name_or_pattern_and_the_name_comes_first() -> None:
    overrides: dict[str, Policy] = {
        "mcp__github__*": "safe",
        "mcp__github__create_issue": "never",
        "Read": "never",
    }
    assert policy_of("mcp__github__get_issue", {}, overrides) == "safe"
    assert policy_of("mcp__github__create_issue", {}, overrides) == "never"
    assert policy_of("Read", {}, overrides) == "never"


def test_tools_of_the_application_are_told_by_their_server() -> None:
    assert application_tool("mcp__outlast__refund") == "refund"
    assert application_tool("mcp__other__refund") is None
    assert application_tool("mcp__outlast__") is None
    assert application_tool("Bash") is None


def test_the_version_stands_beside_the_program(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_bytes(b"")
    (tmp_path / "claude.version").write_text(f"{TESTED[-1]} (Claude Code)\n")
    assert installed(program) == Installed(program, TESTED[-1])
    assert installed(program).warning is None


def test_an_untested_version_is_a_clear_warning(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_bytes(b"")
    assert installed(program).version == "unknown"
    warning = Installed(program, "9.9.9").warning
    assert warning is not None
    assert "9.9.9" in warning
    assert TESTED[-1] in warning


def test_a_missing_program_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(HarnessMissing, match="outlast install claude-code"):
        installed(tmp_path / "claude")
