"""What the model reads of a finished call of Claude Code's own tools.

Where the next request or the transcript holds the result it is taken from there. Between a tool's end and both, only
the hook's `tool_response` is known; `of_response` words it as Claude Code does, as far as
`docs/internals/claude-code.md` knows how.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from outlast.adapters.claude_code.repair import Result
from outlast.adapters.shapes import as_object, as_objects
from outlast.model import ImagePart, TextPart
from outlast.parts import find_parts
from outlast.tool import result_text


def in_messages(messages: Iterable[object]) -> dict[str, Result]:
    """Every tool result in messages of a request or records of a transcript, by call id."""
    return {
        str(block.get("tool_use_id", "")): Result(block.get("content", ""), bool(block.get("is_error")))
        for message in messages
        for block in as_objects(as_object(message).get("content"))
        if block.get("type") == "tool_result"
    }


def of_response(name: str, response: object, *, is_error: bool = False) -> Result:
    """The result that the model reads of a call of tool `name`, from what the hook was given."""
    if isinstance(response, list):
        return Result(as_objects(cast("object", response)), is_error)
    if isinstance(response, dict):
        return Result(_WORDS.get(name, result_text)(as_object(cast("object", response))), is_error)
    return Result(result_text(response), is_error)


def of_ours(value: object, *, is_error: bool) -> Result:
    """The result of one of the application's tools, as Claude Code words what it gets over MCP."""
    if is_error:
        return Result(result_text(value), is_error=True)
    parts = find_parts(value) or (TextPart(result_text(value)),)
    return Result([_block(part) for part in parts])


def _block(part: TextPart | ImagePart) -> Mapping[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    data = b64encode(part.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}


def _bash(response: Mapping[str, Any]) -> str:
    text = f"{response.get('stdout') or ''}{response.get('stderr') or ''}".rstrip("\n")
    return text or "(Bash completed with no output)"


def _read(response: Mapping[str, Any]) -> str | Sequence[Mapping[str, Any]]:
    file: Mapping[str, Any] = response.get("file") or {}
    if response.get("type") == "image":
        source = {
            "type": "base64",
            "media_type": file.get("type", "image/png"),
            "data": file.get("base64", ""),
        }
        return [{"type": "image", "source": source}]
    content = str(file.get("content", ""))
    if not content:
        return "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
    start = int(file.get("startLine", 1))
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(content.split("\n"), start))


def _write(response: Mapping[str, Any]) -> str:
    path = response.get("filePath", "")
    if response.get("type") == "create":
        return f"File created successfully at: {path}"
    return f"The file {path} has been updated successfully."


def _agent(response: Mapping[str, Any]) -> str | Sequence[Mapping[str, Any]]:
    return as_objects(response.get("content")) or result_text(response)


_WORDS = {
    "Bash": _bash,
    "Read": _read,
    "Write": _write,
    "Edit": _write,
    "NotebookEdit": _write,
    "Agent": _agent,
    "Task": _agent,
}
