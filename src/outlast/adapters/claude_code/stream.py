"""What Claude Code says on standard output, and what it is told on standard input: JSON, one object a line."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from outlast.adapter import Attachment
from outlast.adapters.shapes import Json
from outlast.records import Usage


@dataclass(frozen=True, slots=True)
class Begun:
    """It has started (`system/init`); comes again with each prompt."""

    session: str
    version: str
    model: str
    tools: Sequence[str]
    servers: Mapping[str, str]
    """MCP servers by name: `connected`, `failed`, `pending`."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """Records that it has appended to one of its files."""

    path: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """It asks whether a tool may run, after all hooks, with the arguments that it would run with."""

    request: str
    call: str
    name: str
    arguments: Json
    wanted_by_user: bool = False
    """A rule of the user's own settings wants a person asked. A hook is named only where no rule wants it too."""


@dataclass(frozen=True, slots=True)
class HookStarted:
    """A hook before a tool has started, the user's or ours. Which call it is asked about is not said."""

    hook: str
    tool: str


@dataclass(frozen=True, slots=True)
class HookEnded:
    """A hook before a tool has ended."""

    hook: str
    wants_person: bool = False
    """It answered that a person is to be asked."""
    call: str = ""
    """Only ours names the call (`OUR_ANSWER`)."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A question of its own that needs no answer any more."""

    request: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a control request of ours."""

    request: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message of the main conversation: the model's, or Claude Code's own where there was no answer."""

    error: str = ""
    """Why there was no answer: `authentication_failed`, `rate_limit`, `server_error`, …; empty: the model's own."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn is over (`result`)."""

    ok: bool
    text: str
    """The last text of the model, or what went wrong."""
    subtype: str
    why: str
    """`terminal_reason`: `completed`, `api_error`, `prompt_too_long`, `max_turns`, `aborted_tools`, …"""
    status: int | None
    """Of `api_error`: the HTTP status."""
    usage: Usage
    """Of the whole process, as Claude Code reckons it."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """It sends a model request again by itself; with our switches it should not."""

    attempt: int
    status: int | None


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else."""

    kind: str
    subtype: str = ""


@dataclass(frozen=True, slots=True)
class Garbled:
    """A line that is no JSON object."""

    line: str = field(repr=False)


Event: TypeAlias = (
    Begun
    | Mirrored
    | Asked
    | HookStarted
    | HookEnded
    | Withdrawn
    | Answered
    | Spoken
    | Finished
    | Retrying
    | Other
    | Garbled
)

OUR_ANSWER: Final = "outlast"
"""Key in the answers of our own hook: the call's id. Claude Code shows it with the hook's end and reads over it."""

_FROM_FLAGS: Final = "flagSettings"
_BEFORE_TOOL: Final = "PreToolUse"
_NOT_AS_EXPECTED: Final = (
    msgspec.MsgspecError,
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading another program's JSON may raise; whatever it was, the line is not what we know."""


class _Entries(msgspec.Struct):
    filePath: str  # noqa: N815 - theirs
    entries: list[msgspec.Raw]


def read(line: bytes) -> Event:
    """What a line of standard output says."""
    try:
        said = msgspec.json.decode(line, type=dict[str, Any])
        if said.get("type") == "transcript_mirror":
            # Raw, so that what we keep of a record is what Claude Code wrote, byte for byte.
            mirror = msgspec.json.decode(line, type=_Entries)
            return Mirrored(mirror.filePath, [bytes(entry).decode() for entry in mirror.entries])
        return _event(said)
    except _NOT_AS_EXPECTED:
        return Garbled(line[:200].decode(errors="replace"))


def _event(said: Json) -> Event:
    kind, subtype = str(said.get("type", "")), str(said.get("subtype", ""))
    match kind, subtype:
        case "system", _:
            return _of_system(subtype, said)
        case "assistant", _ if not said.get("parent_tool_use_id"):
            return Spoken(str(said.get("error") or ""))
        case "control_request", _:
            return _asked(said)
        case "control_cancel_request", _:
            return Withdrawn(str(said["request_id"]))
        case "control_response", _:
            reply = said["response"]
            return Answered(str(reply["request_id"]), str(reply.get("error", "")))
        case "result", _:
            return _finished(said)
        case _:
            return Other(kind, subtype)


def _of_system(subtype: str, said: Json) -> Event:
    before_tool = said.get("hook_event") == _BEFORE_TOOL
    match subtype:
        case "init":
            return _begun(said)
        case "api_retry":
            return Retrying(int(said.get("attempt", 0)), said.get("error_status"))
        case "hook_started" if before_tool:
            return HookStarted(str(said["hook_id"]), str(said["hook_name"]).removeprefix(f"{_BEFORE_TOOL}:"))
        case "hook_response" if before_tool:
            return _hook_ended(said)
        case _:
            return Other("system", subtype)


def _hook_ended(said: Json) -> HookEnded:
    hook = str(said["hook_id"])
    try:
        answer = msgspec.json.decode(str(said.get("output") or "{}"), type=dict[str, Any])
        decided = cast("Json", answer.get("hookSpecificOutput") or {})
        wants_person = decided.get("permissionDecision") == "ask"
    except _NOT_AS_EXPECTED:  # words for a person to read, and no decision
        return HookEnded(hook)
    return HookEnded(hook, wants_person, str(answer.get(OUR_ANSWER) or ""))


def _begun(said: Json) -> Begun:
    servers = cast("list[Json]", said.get("mcp_servers") or [])
    return Begun(
        session=str(said["session_id"]),
        version=str(said.get("claude_code_version", "")),
        model=str(said.get("model", "")),
        tools=[str(name) for name in cast("list[object]", said.get("tools") or [])],
        servers={str(server["name"]): str(server["status"]) for server in servers},
    )


def _asked(said: Json) -> Asked | Other:
    request = cast("Json", said["request"])
    if request.get("subtype") != "can_use_tool":
        return Other("control_request", str(request.get("subtype", "")))
    rule = cast("Json", request.get("matched_ask_rule") or {})
    # A rule for some commands of a tool is named as the reason only; the rule that matched is then ours, for all tools.
    sources = {rule.get("source"), request.get("decision_reason_rule_source")}
    return Asked(
        request=str(said["request_id"]),
        call=str(request["tool_use_id"]),
        name=str(request["tool_name"]),
        arguments=cast("Json", request.get("input") or {}),
        wanted_by_user=bool(sources - {_FROM_FLAGS, None}) or request.get("decision_reason_type") == "hook",
    )


def _finished(said: Json) -> Finished:
    failed = bool(said.get("is_error")) or said.get("subtype") != "success"
    errors = "; ".join(str(error) for error in cast("list[object]", said.get("errors") or []))
    usage = cast("Json", said.get("usage") or {})
    return Finished(
        ok=not failed,
        text=str(said.get("result") or errors or ("" if not failed else said.get("terminal_reason") or "")),
        subtype=str(said.get("subtype", "")),
        why=str(said.get("terminal_reason") or ""),
        status=said.get("api_error_status"),
        usage=Usage(
            input_tokens=int(usage.get("input_tokens") or 0),
            output_tokens=int(usage.get("output_tokens") or 0),
            cache_read_tokens=int(usage.get("cache_read_input_tokens") or 0),
            cache_write_tokens=int(usage.get("cache_creation_input_tokens") or 0),
            cost_usd=float(said.get("total_cost_usd") or 0.0),
        ),
    )


# ---------------------------------------------------------------- what it is told


def prompt(text: str, uuid: str, attachments: Sequence[Attachment] = ()) -> bytes:
    """A prompt, or a steer while a turn runs; `uuid` names it in the transcript."""
    content: object = text
    if attachments:
        content = [*map(_block, attachments), *([{"type": "text", "text": text}] if text else [])]
    return _line({"type": "user", "uuid": uuid, "message": {"role": "user", "content": content}})


def _block(attachment: Attachment) -> Json:
    if attachment.media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": attachment.text}
    else:
        data = b64encode(attachment.data).decode()
        source = {"type": "base64", "media_type": attachment.media_type, "data": data}
    if attachment.media_type.startswith("image/"):
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": attachment.name}


def allow(asked: Asked, arguments: Mapping[str, Any]) -> bytes:
    """The tool may run, with `arguments` and no others."""
    return _reply(asked.request, {"behavior": "allow", "updatedInput": dict(arguments)})


def deny(asked: Asked, text: str) -> bytes:
    """The tool must not run; the model reads `text` as it is."""
    return _reply(asked.request, {"behavior": "deny", "message": text})


def interrupt(request: str) -> bytes:
    """Stop the turn: the running tool is ended, `Finished` follows."""
    return _line({"type": "control_request", "request_id": request, "request": {"subtype": "interrupt"}})


def _reply(request: str, response: Json, subtype: Literal["success"] = "success") -> bytes:
    return _line(
        {
            "type": "control_response",
            "response": {"subtype": subtype, "request_id": request, "response": response},
        }
    )


def _line(value: Json) -> bytes:
    return msgspec.json.encode(value) + b"\n"
