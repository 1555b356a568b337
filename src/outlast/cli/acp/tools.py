"""Tool calls as editors draw them: which kind, where, what changes in a file, and lists of what is to be done.

The names are those of the tools that the harnesses have built in; any other is drawn as a call with its arguments.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, cast

from acp import schema

from outlast.adapters.shapes import as_object, as_objects
from outlast.cli.text import short
from outlast.tool import result_text

CONTENT_LIMIT: Final = 100_000
"""Characters of a result or of live output that are drawn: the newest."""
_KINDS: Final[Mapping[schema.ToolKind, frozenset[str]]] = {
    "read": frozenset({"read", "notebookread", "view_image", "read_file"}),
    "edit": frozenset({"edit", "write", "multiedit", "notebookedit", "apply_patch", "patch", "write_file"}),
    "search": frozenset({"grep", "glob", "ls", "list", "find", "websearch", "web_search", "toolsearch"}),
    "execute": frozenset({"bash", "shell", "exec_command", "local_shell", "write_stdin", "execute"}),
    "fetch": frozenset({"webfetch", "fetch"}),
    "think": frozenset({"todowrite", "update_plan", "task", "agent"}),
}
_KIND_OF: Final[Mapping[str, schema.ToolKind]] = {
    name: kind for kind, names in _KINDS.items() for name in names
}
_PATHS: Final = ("file_path", "filePath", "path", "notebook_path")
_TELLING: Final = ("command", "cmd", *_PATHS, "pattern", "url", "description", "question", "signal")
_OLD: Final = ("old_string", "oldString", "oldText")
_NEW: Final = ("new_string", "newString", "newText")
_DONE: Final[Mapping[str, schema.PlanEntryStatus]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}

Content = schema.ContentToolCallContent | schema.FileEditToolCallContent


def kind_of(name: str) -> schema.ToolKind:
    """Which icon a tool is drawn with."""
    return _KIND_OF.get(name.lower(), "other")


def title_of(name: str, arguments: object) -> str:
    """A line about a call: the tool, and the argument that tells most."""
    given = as_object(arguments)
    telling = next((given[key] for key in _TELLING if given.get(key)), None)
    if telling is None and given:
        telling = ", ".join(f"{key}={result_text(value)}" for key, value in given.items())
    words = (
        " ".join(map(str, cast("list[object]", telling))) if isinstance(telling, list) else str(telling or "")
    )
    return f"{name} {short(words, 120)}".strip()


def locations_of(arguments: object, cwd: str) -> list[schema.ToolCallLocation]:
    """The files that a call names, as editors open them: absolute."""
    given = as_object(arguments)
    named = [str(given[key]) for key in _PATHS if isinstance(given.get(key), str) and given[key]]
    line = given.get("offset") if isinstance(given.get("offset"), int) else None
    places = [str(PurePath(cwd or "/") / name) for name in named[:1]]
    return [
        schema.ToolCallLocation(path=place, line=line) if line else schema.ToolCallLocation(path=place)
        for place in places
    ]


def changes_of(name: str, arguments: object, cwd: str) -> list[Content]:
    """What a call is about to change in a file, as a diff; nothing where its arguments do not tell."""
    given = as_object(arguments)
    path = next((place.path for place in locations_of(arguments, cwd)), "")
    if not path or kind_of(name) != "edit":
        return []
    edits = [given, *as_objects(given.get("edits"))]
    pairs = [(_first(edit, _OLD), _first(edit, _NEW)) for edit in edits]
    found = [_diff(path, old, new) for old, new in pairs if new is not None]
    if not found and isinstance(given.get("content"), str):
        found = [_diff(path, None, str(given["content"]))]
    return list(found)


def text_content(text: str) -> list[Content]:
    """Output or a result, its newest part where it is long."""
    if not text:
        return []
    kept = text if len(text) <= CONTENT_LIMIT else f"…{text[-CONTENT_LIMIT:]}"
    block = schema.TextContentBlock(type="text", text=kept)
    return [schema.ContentToolCallContent(type="content", content=block)]


def output_content(name: str, text: str) -> list[Content]:
    """Output as text is drawn: of a command in a block of its own, since a terminal of the editor's ran none of it."""
    if kind_of(name) != "execute" or not text:
        return text_content(text)
    fence = "```"
    while fence in text:
        fence += "`"
    kept = text if len(text) <= CONTENT_LIMIT else f"…{text[-CONTENT_LIMIT:]}"
    return text_content(f"{fence}\n{kept.rstrip()}\n{fence}")


def words_of(value: object) -> str:
    """A result as a person reads it: of a command what it printed, of a file its text, of blocks their texts.

    The shapes are those in which harnesses tell the results of their own tools; any other is shown as the model reads
    it.
    """
    if value is None:
        return ""
    blocks, given = as_objects(value), as_object(value)
    if blocks and all(isinstance(block.get("text"), str) for block in blocks):
        return "\n".join(str(block["text"]) for block in blocks)
    printed = [given.get(stream) for stream in ("stdout", "stderr")]
    if any(isinstance(text, str) for text in printed):
        return "\n".join(text for text in printed if isinstance(text, str) and text)
    for text in (given.get("text"), given.get("output"), as_object(given.get("file")).get("content")):
        if isinstance(text, str):
            return text
    return result_text(value)


def plan_in(name: str, arguments: object) -> list[schema.PlanEntry] | None:
    """What is to be done, where the call writes such a list down; None where it writes none."""
    given = as_object(arguments)
    listed: object = {"todowrite": given.get("todos"), "update_plan": given.get("plan")}.get(name.lower())
    return plan_of(listed) if isinstance(listed, list) else None  # pyright: ignore[reportUnknownArgumentType] - JSON


def plan_of(listed: object) -> list[schema.PlanEntry]:
    """The entries of a list of what is to be done; what is no entry is left out."""
    entries: list[schema.PlanEntry] = []
    for one in as_objects(listed):
        text = one.get("content") or one.get("step") or one.get("text")
        status = _DONE.get(str(one.get("status", "pending")))
        if isinstance(text, str) and status is not None:
            priority = one.get("priority") if one.get("priority") in {"high", "low"} else "medium"
            entries.append(
                schema.PlanEntry(
                    content=text, status=status, priority=cast("schema.PlanEntryPriority", priority)
                )
            )
    return entries


def _diff(path: str, old: str | None, new: str) -> Content:
    if old is None:
        return schema.FileEditToolCallContent(type="diff", path=path, new_text=new)
    return schema.FileEditToolCallContent(type="diff", path=path, old_text=old, new_text=new)


def _first(given: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((given[key] for key in keys if isinstance(given.get(key), str)), None)
