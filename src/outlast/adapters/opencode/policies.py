"""What recovery may do about a call of one of OpenCode's own tools whose result was lost."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.adapters.program import overridden
from outlast.adapters.shell import judge
from outlast.records.kinds import Policy

SERVER: Final = "outlast"
"""Name of our MCP server: the application's tool `refund` is `outlast_refund` to the model."""

BUILT_IN: Final[Mapping[str, Policy]] = {
    # They look, or note something for the session itself.
    "glob": "safe",
    "grep": "safe",
    "invalid": "safe",
    "list": "safe",
    "lsp": "safe",
    "read": "safe",
    "skill": "safe",
    "todoread": "safe",
    "todowrite": "safe",
    # A sub-agent starts anew; each of its calls is in the log and is decided for itself.
    "task": "safe",
    # They change files, and the files are asked whether they did (`edits`).
    "apply_patch": "verify",
    "edit": "verify",
    "multiedit": "verify",
    "write": "verify",
}
"""Tools by name; what is not here is `never`, but for bash, whose command decides."""

_PREFIX: Final = f"{SERVER}_"


def policy_of(
    name: str, arguments: Mapping[str, Any], overrides: Mapping[str, Policy] | None = None
) -> Policy:
    """The replay policy of a call.

    Args:
        name: as the model calls the tool; not one of the application's (`application_tool`).
        overrides: the user's own, by name or by a pattern of names (`github_get_*`); an exact name comes first, then
            the patterns in their order.
    """
    own = overridden(name, overrides)
    if own is not None:
        return own
    if name == "bash":
        command = arguments.get("command")
        return judge(command).policy if isinstance(command, str) else "never"
    if name == "task" and arguments.get("background"):  # it outlives the call
        return "never"
    return BUILT_IN.get(name, "never")


def application_tool(name: str) -> str | None:
    """The application's name for a tool that it offers through us; None for every other tool."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) and name != _PREFIX else None
