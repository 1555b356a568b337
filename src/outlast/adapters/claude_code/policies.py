"""What recovery may do about a call of one of Claude Code's own tools whose result was lost."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.adapters.claude_code.launch import SERVER
from outlast.adapters.program import overridden
from outlast.adapters.shell import judge
from outlast.records.kinds import Policy

BUILT_IN: Final[Mapping[str, Policy]] = {
    # They look, or note something for the session itself.
    "Glob": "safe",
    "Grep": "safe",
    "LS": "safe",
    "NotebookRead": "safe",
    "Read": "safe",
    "Skill": "safe",
    "TaskGet": "safe",
    "TaskList": "safe",
    "TodoRead": "safe",
    "TodoWrite": "safe",
    "ToolSearch": "safe",
    # A sub-agent starts anew; each of its calls is in the log and is decided for itself.
    "Agent": "safe",
    "Task": "safe",
    # They change files, and the files are asked whether they did (`edits`).
    "Edit": "verify",
    "MultiEdit": "verify",
    "NotebookEdit": "verify",
    "Write": "verify",
}
"""Tools by name; what is not here is `never`, but for Bash, whose command decides."""

_PREFIX: Final = f"mcp__{SERVER}__"


def policy_of(
    name: str, arguments: Mapping[str, Any], overrides: Mapping[str, Policy] | None = None
) -> Policy:
    """The replay policy of a call.

    Args:
        name: as the model calls the tool; not one of the application's (`application_tool`).
        overrides: the user's own, by name or by a pattern of names (`mcp__github__get_*`); an exact name comes first,
            then the patterns in their order.
    """
    own = overridden(name, overrides)
    if own is not None:
        return own
    if name == "Bash":
        return _shell_policy(arguments)
    if arguments.get("run_in_background"):  # it outlives the call, so that its result says nothing of its end
        return "never"
    return BUILT_IN.get(name, "never")


def application_tool(name: str) -> str | None:
    """The application's name for a tool that it offers through us; None for every other tool."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) and name != _PREFIX else None


def _shell_policy(arguments: Mapping[str, Any]) -> Policy:
    command = arguments.get("command")
    if not isinstance(command, str) or arguments.get("run_in_background"):
        return "never"
    return judge(command).policy
