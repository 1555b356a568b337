"""What can be asked about a harness's own edits: are its files as they were before, or as they were to become?

The witness has the hash of each file before the edit and, where the edit can be worked out, after it. An `Edit` never
says that a file becomes what the harness would not make of it; where the harness does more than replace exact text, it
says nothing of that file, and only an unchanged one tells something.
"""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from outlast.errors import WorkspaceError
from outlast.ids import content_hash
from outlast.inquiry import Scene, Witness
from outlast.tool import Done, NotDone, Unsure, Verdict

Contents: TypeAlias = Mapping[str, bytes | None]
"""Files by path; None: nothing is there."""
Standing: TypeAlias = Literal["before", "after", "same", "other"]
"""How a file stands: as before the edit, as after it, both of which may be the `same`, or otherwise."""

IS: Final = "files"
"""Tells this witness from others."""
GONE: Final = ""
"""The hash of a file that is not there."""
LOST: Final = (
    "(The answer of the tool itself was lost with its process. That it is done was found in the files.)"
)
_SAID: Final[Mapping[Standing, str]] = {
    "before": "is as it was before",
    "after": "is as the call was to leave it",
    "other": "is neither as it was before nor as the call was to leave it",
}
_CHANGED: Final = "is not as it was before, and what the call was to make of it could not be worked out"
OF_FILES: Final = "Of its files {said}."


@dataclass(frozen=True, slots=True)
class Edit:
    """What one call does to files."""

    paths: Sequence[str]
    """As the harness names them: absolute, or relative to where it works."""
    apply: Callable[[Contents], Contents] = field(default=lambda _: {})
    """What its files are afterwards, from what they are before. One that is left out: it cannot be told."""
    says: Callable[[Contents], str] = field(default=lambda _: "Done.")
    """How the harness says that it is done, from what the files are before."""


@dataclass(frozen=True, slots=True)
class EditInquiry:
    """See `outlast.inquiry.Inquiry`."""

    edit: Edit
    files_only: bool = True

    async def note(self, scene: Scene) -> Witness | None:
        if not self.edit.paths:
            return None
        try:
            before = {path: await scene.read(path) for path in self.edit.paths}
        except WorkspaceError:
            return None
        after = self.edit.apply(before)
        files = [
            {"path": path, "before": _hash(data), **({"after": _hash(after[path])} if path in after else {})}
            for path, data in before.items()
        ]
        return {"is": IS, "files": files, "says": self.edit.says(before)}

    async def ask(self, scene: Scene, witness: Witness) -> Verdict:
        if witness.get("is") != IS:
            return Unsure()
        files: Sequence[Mapping[str, Any]] = witness["files"]
        standings: list[Standing] = [_standing(file, _hash(await scene.read(file["path"]))) for file in files]
        if all(one in {"after", "same"} for one in standings):
            return Done(f"{witness['says']}\n{LOST}")
        if all(one in {"before", "same"} for one in standings):
            return NotDone()
        return Unsure(_told(files, standings))


def _hash(data: bytes | None) -> str:
    return GONE if data is None else content_hash(data).hex()


def _standing(file: Mapping[str, Any], now: str) -> Standing:
    if now == file["before"]:
        return "same" if now == file.get("after") else "before"
    return "after" if now == file.get("after") else "other"


def _told(files: Sequence[Mapping[str, Any]], standings: Sequence[Standing]) -> str:
    said = [
        f"{file['path']} {_CHANGED if one == 'other' and 'after' not in file else _SAID[one]}"
        for file, one in zip(files, standings, strict=True)
        if one != "same"
    ]
    return OF_FILES.format(said="; ".join(said))


def as_text(data: bytes | None) -> str | None:
    """The text of a file that is plain: UTF-8 without a mark, lines that end with a line feed; None of any other."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if is_odd(text) else text


def is_odd(text: str) -> bool:
    """Whether harnesses do more to such a text than to write it down: a mark of byte order, carriage returns."""
    return text.startswith("\ufeff") or "\r" in text


def as_bytes(text: str) -> bytes | None:
    """What is written for a text; None where that cannot be told."""
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return None


def replaced(text: str, old: str, new: str, *, every: bool = False) -> str | None:
    """The text with `old` replaced where it stands exactly; None if it does not, or more than once and not `every`.

    Occurrences that overlap count as more than one.
    """
    if not old or old not in text:
        return None
    if text.find(old) != text.rfind(old) and not every:
        return None
    return text.replace(old, new)


def written(path: str, content: str, says: Callable[[bool], str], *, odd: bool = True) -> Edit:
    """A call that makes a file, or writes one anew.

    Args:
        says: how the harness says so, of a file that was there or was not.
        odd: it writes down also odd texts as they are.
    """

    def apply(before: Contents) -> Contents:
        data, there = as_bytes(content), before[path]
        plain = there is None or _is_plain(there)
        return {path: data} if data is not None and plain and (odd or not is_odd(content)) else {}

    return Edit([path], apply, lambda before: says(before[path] is not None))


def _is_plain(data: bytes) -> bool:
    """Whether nothing of a file's own encoding is kept when it is written anew."""
    try:
        return not data.decode().startswith("\ufeff")
    except UnicodeDecodeError:
        return False


def edited(path: str, change: Callable[[str], str | None], says: str) -> Edit:
    """A call that changes the text of one file.

    Args:
        change: what the text becomes; None where that cannot be told.
    """

    def apply(before: Contents) -> Contents:
        text = as_text(before[path])
        new = None if text is None else change(text)
        data = None if new is None else as_bytes(new)
        return {} if data is None else {path: data}

    return Edit([path], apply, lambda _: says)


def local_path(arguments: Mapping[str, Any], name: str) -> str:
    """The path in an argument; empty where a harness might take it for something else than it says."""
    path = arguments.get(name)
    if not isinstance(path, str) or not path or path[0] in "~@" or ":" in path.partition("/")[0]:
        return ""
    return "" if "\0" in path else path


def name_of(path: str, cwd: str) -> str:
    """A path as it is known below `cwd`, so that two ways to say it are one."""
    return posixpath.normpath(posixpath.join(cwd, path))
