"""What Codex's own tools do to files (`outlast.adapters.edited`)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.codex.policies import PATCH, SHELL
from outlast.adapters.edited import EditInquiry
from outlast.adapters.patches import Section, heredoc_of, listed, patched

SAYS: Final = "Exit code: 0\nOutput:\nSuccess. Updated the following files:\n{files}\n"


def inquiry_of(name: str, arguments: Mapping[str, Any]) -> EditInquiry | None:
    """What can be asked about a call; None of one that edits no file, or more than files."""
    found = _patch_of(name, arguments)
    edit = None if found is None else patched(found[0], _says, within=found[1])
    return None if edit is None else EditInquiry(edit)


def _patch_of(name: str, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    if name == PATCH:
        patch = arguments.get("input")
        return (patch, "") if isinstance(patch, str) else None
    command = arguments.get("cmd") if name == SHELL and not arguments.get("workdir") else None
    return heredoc_of(command) if isinstance(command, str) else None


def _says(sections: Sequence[Section]) -> str:
    return SAYS.format(files=listed(sections))
