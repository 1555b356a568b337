"""What recovery may do about a call of one of Pi's own tools whose result was lost."""

from collections.abc import Mapping
from typing import Any, Final

from outlast.adapters.program import overridden
from outlast.adapters.shell import judge
from outlast.records.kinds import Policy

BUILT_IN: Final[Mapping[str, Policy]] = {
    # They look.
    "find": "safe",
    "grep": "safe",
    "ls": "safe",
    "read": "safe",
    # They change files, and the files are asked whether they did (`edits`).
    "edit": "verify",
    "write": "verify",
}
"""Tools by name; what is not here is `never`, but for `bash`, whose command decides."""


def policy_of(
    name: str, arguments: Mapping[str, Any], overrides: Mapping[str, Policy] | None = None
) -> Policy:
    """The replay policy of a call.

    Args:
        name: as the model calls the tool; not one of the application's.
        overrides: the user's own, by name or by a pattern of names; an exact name comes first, then the patterns in
            their order.
    """
    own = overridden(name, overrides)
    if own is not None:
        return own
    if name == "bash":
        command = arguments.get("command")
        return judge(command).policy if isinstance(command, str) else "never"
    return BUILT_IN.get(name, "never")
