"""What Pi's own tools do to files (`outlast.adapters.edited`; docs/internals/pi.md)."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from outlast.adapters.edited import Edit, EditInquiry, edited, is_odd, local_path, written
from outlast.adapters.shapes import as_objects

WROTE: Final = "Successfully wrote to {path}"
REPLACED: Final = "Successfully replaced {count} block(s) in {path}."


def inquiry_of(name: str, arguments: Mapping[str, Any]) -> EditInquiry | None:
    """What can be asked about a call; None of one that edits no file."""
    edit = _edit_of(name, arguments)
    return None if edit is None else EditInquiry(edit)


def _edit_of(name: str, arguments: Mapping[str, Any]) -> Edit | None:
    path = local_path(arguments, "path")
    if not path:
        return None
    content = arguments.get("content")
    if name == "write" and isinstance(content, str):
        return written(path, content, lambda _: WROTE.format(path=path))
    if name != "edit":
        return None
    given = as_objects(arguments.get("edits"))
    pairs = [(one.get("oldText"), one.get("newText")) for one in given]
    steps = [(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
    if not steps or len(steps) != len(pairs):
        return Edit([path])
    says = REPLACED.format(count=len(steps), path=path)
    return edited(path, lambda text: _replaced(text, steps), says)


def _replaced(text: str, steps: list[tuple[str, str]]) -> str | None:
    """The text with all replaced at once: each is looked for in the text as it was."""
    if any(is_odd(part) for step in steps for part in step):
        return None
    places = sorted((text.find(old), old, new) for old, new in steps)
    alone = all(old and at == text.rfind(old) >= 0 for at, old, _ in places)
    apart = all(at + len(old) <= then for (at, old, _), (then, _, _) in pairwise(places))
    if not alone or not apart:
        return None
    for at, old, new in reversed(places):
        text = text[:at] + new + text[at + len(old) :]
    return text
