"""What Claude Code's own tools do to files (`outlast.adapters.edited`; docs/internals/claude-code.md)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.edited import Edit, EditInquiry, edited, local_path, replaced, written
from outlast.adapters.shapes import as_objects

CREATED: Final = "File created successfully at: {path}"
UPDATED: Final = "The file {path} has been updated successfully."
ALL_REPLACED: Final = "The file {path} has been updated. All occurrences were successfully replaced."
NOTED: Final = "The notebook {path} has been updated."

_MARKDOWN: Final = re.compile(r"\.mdx?$", re.IGNORECASE)
_TRAILING: Final = re.compile(r"[^\S\n]+(?=\n|$)")


def inquiry_of(name: str, arguments: Mapping[str, Any]) -> EditInquiry | None:
    """What can be asked about a call; None of one that edits no file."""
    edit = _edit_of(name, arguments)
    return None if edit is None else EditInquiry(edit)


def _edit_of(name: str, arguments: Mapping[str, Any]) -> Edit | None:
    path = local_path(arguments, "notebook_path" if name == "NotebookEdit" else "file_path")
    if not path:
        return None
    match name:
        case "Write":
            content = arguments.get("content")
            return _written(path, content, CREATED) if isinstance(content, str) else None
        case "Edit" if arguments.get("old_string") == "":
            content = arguments.get("new_string")
            return _written(path, content, UPDATED) if isinstance(content, str) else None
        case "Edit":
            every = bool(arguments.get("replace_all"))
            says = (ALL_REPLACED if every else UPDATED).format(path=path)
            return edited(path, lambda text: _replaced(path, text, [arguments]), says)
        case "MultiEdit":
            steps = as_objects(arguments.get("edits"))
            return edited(path, lambda text: _replaced(path, text, steps), UPDATED.format(path=path))
        case "NotebookEdit":
            return Edit([path], says=lambda _: NOTED.format(path=path))
        case _:
            return None


def _written(path: str, content: str, new: str) -> Edit:
    return written(path, content, lambda there: (UPDATED if there else new).format(path=path))


def _replaced(path: str, text: str, steps: Sequence[Mapping[str, Any]]) -> str | None:
    """The text after one replacement upon the other."""
    now: str | None = text if steps else None
    for step in steps:
        old, new = step.get("old_string"), step.get("new_string")
        if now is None or not isinstance(old, str) or not isinstance(new, str):
            return None
        if _TRAILING.search(new) and not _MARKDOWN.search(path):
            return None  # blanks at the ends of lines may be taken out of what is put in
        if not new and not old.endswith("\n") and f"{old}\n" in now:
            old = f"{old}\n"  # what is taken out whole takes its line feed along
        now = replaced(now, old, new, every=bool(step.get("replace_all")))
    return now
