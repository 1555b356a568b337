"""Commands of Claude Code's own Bash: how it begins the shell, and how it says what came of it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.commands import output_of, seconds_of
from outlast.calls import ShellUse, ToolResult
from outlast.workspace import Ran

TIMEOUT_S: Final = 120.0
LONGEST_S: Final = 600.0
_ENDED: Final = 143
_SCRIPT: Final = re.compile(r"\beval (.*) && pwd -P >\| \S+$", re.DOTALL)
"""The end of what it gives the shell. Before that stands what brings back the user's environment."""
_QUOTING: Final = re.compile(r"['\"\\\s]|<\s*/dev/null")


def shell_use(name: str, arguments: Mapping[str, Any]) -> ShellUse | None:
    """Of a call that is a command which Claude Code waits for."""
    command = arguments.get("command")
    if name != "Bash" or not isinstance(command, str) or arguments.get("run_in_background"):
        return None
    timeout_s = min(seconds_of(arguments, "timeout", 1000) or TIMEOUT_S, LONGEST_S)

    def runs(words: Sequence[str]) -> bool:
        found = _SCRIPT.search(words[-1]) if words else None
        return found is not None and _bare(found[1]) == _bare(command)

    return ShellUse(runs, lambda ran: told(ran, timeout_s), timeout_s)


def _bare(text: str) -> str:
    """A command without what quoting it may change."""
    return _QUOTING.sub("", text)


def told(ran: Ran, timeout_s: float) -> ToolResult:
    """The end of a command as the hook after the tool says it."""
    output = output_of(ran).rstrip("\n")
    if ran.timed_out:
        return ToolResult(
            "error", f"Exit code {_ENDED}\nCommand timed out after {timeout_s:g}s\n{output}".rstrip()
        )
    if ran.status:
        return ToolResult("error", f"Exit code {ran.status}\n{output}".rstrip())
    return ToolResult("ok", {"stdout": output, "stderr": "", "interrupted": False, "isImage": False})
