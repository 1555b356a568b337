"""What recovery may do about a call of one of Codex's own tools whose result was lost."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.adapters.patches import heredoc_of
from outlast.adapters.program import overridden
from outlast.adapters.shell import judge
from outlast.records.kinds import Policy

SHELL: Final = "exec_command"
PATCH: Final = "apply_patch"
STDIN: Final = "write_stdin"

BUILT_IN: Final[Mapping[str, Policy]] = {
    # They look, or note something for the session itself.
    "list_mcp_resource_templates": "safe",
    "list_mcp_resources": "safe",
    "read_mcp_resource": "safe",
    "tool_search": "safe",
    "update_plan": "safe",
    "view_image": "safe",
    # They ask a person, who is not here.
    "request_user_input": "safe",
    # They change files, and the files are asked whether they did (`edits`).
    PATCH: "verify",
    # What is typed into a program is typed.
    STDIN: "never",
}
"""Tools by name; what is not here is `never`, but for the shell, whose command decides."""

UNASKED: Final = frozenset({STDIN})
"""What Codex runs without a hook and without an approval."""

_SHELLS: Final = frozenset({"/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh", "bash", "sh"})


def policy_of(
    name: str, arguments: Mapping[str, Any], overrides: Mapping[str, Policy] | None = None
) -> Policy:
    """The replay policy of a call.

    Args:
        name: as the model calls the tool; not one of the application's.
        overrides: the user's own, by name or by a pattern of names (`mcp__github__get_*`); an exact name comes first,
            then the patterns in their order.
    """
    own = overridden(name, overrides)
    if own is not None:
        return own
    return _shell_policy(arguments) if name == SHELL else BUILT_IN.get(name, "never")


def _shell_policy(arguments: Mapping[str, Any]) -> Policy:
    command = arguments.get("cmd")
    if isinstance(command, str) and heredoc_of(command) is not None:
        return "verify"
    shell = arguments.get("shell")
    if not isinstance(command, str) or not (shell is None or shell in _SHELLS):
        return "never"
    return judge(command).policy
