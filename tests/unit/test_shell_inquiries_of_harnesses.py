"""Each harness's own shell is asked about, in the directory that its call names."""

from collections.abc import Mapping
from typing import Any

import pytest

from outlast.adapter import Adapter
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.codex import Codex
from outlast.adapters.opencode import OpenCode
from outlast.adapters.pi import Pi
from outlast.adapters.shell_inquiry import ShellInquiry

PUSH = "git add -A && git commit -m x && git push"
SHELLS = [
    (ClaudeCode(), "Bash", {"command": PUSH}, ""),
    (Codex(), "exec_command", {"cmd": PUSH}, ""),
    (Codex(), "exec_command", {"cmd": PUSH, "workdir": "/srv/x"}, "/srv/x"),
    (OpenCode(), "bash", {"command": PUSH, "workdir": "x"}, "x"),
    (Pi(), "bash", {"command": PUSH}, ""),
]


@pytest.mark.parametrize(("adapter", "name", "arguments", "cwd"), SHELLS)
def test_a_push_is_asked_about(adapter: Adapter, name: str, arguments: Mapping[str, Any], cwd: str) -> None:
    means = adapter.resolve(name, arguments, {})
    assert means.policy == "verify"
    assert isinstance(means.inquiry, ShellInquiry)
    assert (len(means.inquiry.acts), means.inquiry.cwd) == (2, cwd)
    assert not means.inquiry.files_only


@pytest.mark.parametrize(("adapter", "name", "arguments", "cwd"), SHELLS)
def test_what_only_looks_or_may_do_anything_is_not(
    adapter: Adapter, name: str, arguments: Mapping[str, Any], cwd: str
) -> None:
    for command in ("ls", "make", "git push & make"):
        said = {key: command if value == PUSH else value for key, value in arguments.items()}
        assert adapter.resolve(name, said, {}).inquiry is None, cwd


def test_a_command_in_the_background_is_run_once_and_not_asked_about() -> None:
    means = ClaudeCode().resolve("Bash", {"command": PUSH, "run_in_background": True}, {})
    assert means.policy == "never"
