"""Commands of Codex's own shell: how it begins it, and how it says what came of one that it was not there to hear."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.codex.policies import SHELL
from outlast.adapters.commands import output_of
from outlast.calls import ShellUse, ToolResult
from outlast.workspace import Ran

PATIENCE_S: Final = 600.0
"""It would have been given up to half a minute, and then be asked about; but there is nobody any more who could ask."""
_FLAGS: Final = frozenset({"-c", "-lc"})


def shell_use(name: str, arguments: Mapping[str, Any]) -> ShellUse | None:
    """Of a call that is a command, but for one that wants a terminal or a shell of its own choice."""
    command = arguments.get("cmd")
    if name != SHELL or not isinstance(command, str) or arguments.get("tty") or arguments.get("shell"):
        return None

    def runs(words: Sequence[str]) -> bool:
        return len(words) == 2 and words[0] in _FLAGS and words[1] == command

    return ShellUse(runs, told, patience_s=PATIENCE_S)


def told(ran: Ran) -> ToolResult:
    """The end of a command as Codex words it. How long it took nobody knows."""
    ended = f"Process exited with code {ran.status}"
    if ran.timed_out:
        ended += f"\nIt was ended, since it still ran {PATIENCE_S:g} seconds after Codex itself had ended."
    return ToolResult("ok", f"{ended}\nOutput:\n{output_of(ran)}")
