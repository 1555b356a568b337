"""What Pi says on its standard output in RPC mode, and what it is told on its standard input (`docs/rpc.md` of Pi)."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from outlast.adapter import Attachment
from outlast.adapters.shapes import Json, as_object, as_objects

_PIECES: Final = (b'{"type":"message_update"', b'{"type":"tool_execution_update"')
"""Each carries everything so far; the gateway shows the text of an answer."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A command was not taken."""

    command: str
    why: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The extension asks whether a call may run."""

    request: str
    call: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The model's answer has ended, well or not."""

    stop: str
    text: str
    error: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Pi does nothing more by itself."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An extension has failed."""

    why: str


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else."""


Event: TypeAlias = NotTaken | Asked | Answered | Settled | Broken | Other


def read(line: bytes) -> Event:
    """What a line says."""
    if line.startswith(_PIECES):
        return Other()
    try:
        said = as_object(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Other()
    match said.get("type"):
        case "response" if said.get("success") is False:
            return NotTaken(str(said.get("command", "")), str(said.get("error", "")))
        case "extension_ui_request" if said.get("method") == "input":
            return Asked(str(said.get("id", "")), str(said.get("placeholder", "")))
        case "extension_error":
            return Broken(str(said.get("error", "")))
        case "message_end" if as_object(said.get("message")).get("role") == "assistant":
            return answered(as_object(said["message"]))
        case "agent_settled":
            return Settled()
        case _:
            return Other()


def answered(message: Json) -> Answered:
    """How an answer of the model has ended, from its message."""
    blocks = as_objects(message.get("content"))
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    return Answered(str(message.get("stopReason", "")), text, str(message.get("errorMessage") or ""))


def prompt(text: str, images: Sequence[Attachment] = ()) -> bytes:
    """Begin a turn, or give a command of an extension."""
    said: Json = {"id": "prompt", "type": "prompt", "message": text}
    return _line({**said, "images": [_image(one) for one in images]} if images else said)


def _image(image: Attachment) -> Json:
    return {"type": "image", "data": b64encode(image.data).decode(), "mimeType": image.media_type}


def steer(text: str) -> bytes:
    """Say something while the turn runs: the next request carries it."""
    return _line({"type": "steer", "message": text})


def answer(asked: Asked, text: str) -> bytes:
    """Answer the extension."""
    return _line({"type": "extension_ui_response", "id": asked.request, "value": text})


def _line(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
