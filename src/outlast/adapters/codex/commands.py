"""Commands of Codex's own shell: how it begins it, and how it says what came of one that it was not there to hear."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.codex.policies import SHELL, STDIN
from outlast.adapters.commands import output_of
from outlast.calls import ShellUse, ToolResult
from outlast.workspace import Ran

PATIENCE_S: Final = 600.0
"""Codex itself waits for half a minute at most, and is asked again; but nobody is there any more to be asked."""
_FLAGS: Final = frozenset({"-c", "-lc"})
_GOES_ON: Final = re.compile(r"^Process running with session ID (\d+)$", re.MULTILINE)


def shell_use(name: str, arguments: Mapping[str, Any]) -> ShellUse | None:
    """Of a call that is a command, or waits for one without typing: but for one with a terminal or another shell."""
    if name == STDIN:
        session = arguments.get("session_id")
        waits = isinstance(session, int) and not arguments.get("chars")
        return ShellUse(_never, told, patience_s=PATIENCE_S, follows=str(session)) if waits else None
    command = arguments.get("cmd")
    if name != SHELL or not isinstance(command, str) or arguments.get("tty") or arguments.get("shell"):
        return None

    def runs(words: Sequence[str]) -> bool:
        return len(words) == 2 and words[0] in _FLAGS and words[1] == command

    return ShellUse(runs, told, patience_s=PATIENCE_S, goes_on=_goes_on)


def _never(_: Sequence[str]) -> bool:
    return False


def _goes_on(result: ToolResult) -> str:
    found = _GOES_ON.search(result.value) if isinstance(result.value, str) else None
    return "" if found is None else found[1]


def told(ran: Ran) -> ToolResult:
    """The end of a command as Codex words it, with all of its output. How long it took nobody knows."""
    ended = f"Process exited with code {ran.status}"
    if ran.timed_out:
        ended += (
            f"\nIt was ended, since it had written nothing for {PATIENCE_S:g} seconds and Codex was gone."
        )
    return ToolResult("ok", f"{ended}\nOutput:\n{output_of(ran)}")
