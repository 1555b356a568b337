"""What OpenCode's own tools do to files (`outlast.adapters.edited`; docs/internals/opencode.md)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.edited import Edit, EditInquiry, edited, is_odd, local_path, replaced, written
from outlast.adapters.patches import Section, listed, patched

WROTE: Final = "Wrote file successfully."
EDITED: Final = "Edit applied successfully."
PATCHED: Final = "Success. Updated the following files:\n{files}"


def inquiry_of(name: str, arguments: Mapping[str, Any]) -> EditInquiry | None:
    """What can be asked about a call; None of one that edits no file."""
    edit = _edit_of(name, arguments)
    return None if edit is None else EditInquiry(edit)


def _edit_of(name: str, arguments: Mapping[str, Any]) -> Edit | None:
    if name == "apply_patch":
        patch = arguments.get("patchText")
        return patched(patch, _says, shorn=True) if isinstance(patch, str) else None
    path = local_path(arguments, "filePath")
    if not path:
        return None
    old, new, content = (arguments.get(key) for key in ("oldString", "newString", "content"))
    if name == "write" and isinstance(content, str):
        return written(path, content, lambda _: WROTE)
    if name != "edit" or not isinstance(old, str) or not isinstance(new, str):
        return None
    if not old:
        return written(path, new, lambda _: EDITED)
    every = bool(arguments.get("replaceAll"))
    return edited(path, lambda text: _replaced(text, old, new, every=every), EDITED)


def _replaced(text: str, old: str, new: str, *, every: bool) -> str | None:
    if (
        is_odd(old) or is_odd(new) or (every and "$" in new)
    ):  # which means something in what is put in everywhere
        return None
    return replaced(text, old, new, every=every)


def _says(sections: Sequence[Section]) -> str:
    return PATCHED.format(files=listed(sections))
