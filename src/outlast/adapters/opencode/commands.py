"""Commands of OpenCode's own bash: how it begins the shell, and how it says what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.commands import output_of, seconds_of
from outlast.calls import ShellUse, ToolResult
from outlast.workspace import Ran

TIMEOUT_S: Final = 120.0


def shell_use(name: str, arguments: Mapping[str, Any]) -> ShellUse | None:
    """Of a call that is a command."""
    command = arguments.get("command")
    if name != "bash" or not isinstance(command, str):
        return None
    timeout_s = seconds_of(arguments, "timeout", 1000) or TIMEOUT_S

    def runs(words: Sequence[str]) -> bool:
        return len(words) == 2 and words[0] == "-c" and words[1] == command

    return ShellUse(runs, lambda ran: told(ran, timeout_s), timeout_s)


def told(ran: Ran, timeout_s: float) -> ToolResult:
    """The end of a command as OpenCode words it: of its exit status it says nothing."""
    output = output_of(ran) or "(no output)"
    if ran.timed_out:
        late = f"bash tool terminated command after exceeding timeout {timeout_s * 1000:.0f} ms"
        output += f"\n\n<bash_metadata>\n{late}\n</bash_metadata>"
    return ToolResult("ok", output)
