"""Commands of Pi's own bash: how it begins the shell, and how it says what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from outlast.adapters.commands import output_of, seconds_of
from outlast.calls import ShellUse, ToolResult
from outlast.workspace import Ran


def shell_use(name: str, arguments: Mapping[str, Any]) -> ShellUse | None:
    """Of a call that is a command."""
    command = arguments.get("command")
    if name != "bash" or not isinstance(command, str):
        return None
    timeout_s = seconds_of(arguments, "timeout")

    def runs(words: Sequence[str]) -> bool:
        return len(words) == 2 and words[0] == "-c" and words[1] == command

    return ShellUse(runs, lambda ran: told(ran, timeout_s), timeout_s)


def told(ran: Ran, timeout_s: float) -> ToolResult:
    """The end of a command as Pi words it."""
    output = output_of(ran)
    if ran.timed_out:
        return ToolResult("error", f"{output}\n\nCommand timed out after {timeout_s:g} seconds".lstrip())
    if ran.status:
        return ToolResult("error", f"{output}\n\nCommand exited with code {ran.status}".lstrip())
    return ToolResult("ok", output or "(no output)")
