"""Pure: messages and answers, in whatever dialect a log has them, as OpenTelemetry's conventions have messages.

The dialects are Anthropic's Messages, OpenAI's Responses and Chat Completions, `outlast.model`, and the frameworks'
own. What is not known stands there by its type alone; bytes of images and files never do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_THOUGHTS: Final = frozenset({"thinking", "reasoning"})
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "function_call", "tool_call", "tool-call"})
_RESULTS: Final = frozenset({"tool_result", "function_call_output", "tool-return"})


@dataclass(frozen=True, slots=True)
class SaidAnswer:
    """What a model's answer says of itself."""

    model: str
    id: str
    reasons: Sequence[str]
    """Why it ended, in the provider's words."""
    messages: Sequence[Any]
    """What it said, as it stands in the log."""


def answer_of(answer: Mapping[str, Any]) -> SaidAnswer:
    """What an answer says of itself."""
    about = _dict(answer.get("response_metadata"))
    model = _text(
        answer.get("model") or answer.get("model_name") or about.get("model_name") or about.get("model")
    )
    choices = [_dict(one) for one in _list(answer.get("choices"))]
    told = [one.get("finish_reason") for one in choices]
    if not told:
        told = [answer.get("stop_reason") or answer.get("stop") or answer.get("finish_reason")]
        told = (
            told
            if told[0]
            else [about.get("stop_reason") or about.get("finish_reason") or answer.get("status")]
        )
    messages: Sequence[Any] = [one.get("message") for one in choices]
    if not messages:
        message = answer.get("message")
        messages = [message if isinstance(message, dict) else {**answer, "role": "assistant"}]
    return SaidAnswer(
        model, _text(answer.get("id")), [one for one in told if isinstance(one, str) and one], messages
    )


def system_of(frame: Mapping[str, Any]) -> str:
    """The instructions of a request, which stand beside its messages."""
    found = frame.get("system") or frame.get("instructions")
    if isinstance(found, str):
        return found
    return "\n".join(_text(_dict(block).get("text")) for block in _list(found))


def as_message(raw: object) -> dict[str, Any]:
    """One message as `{"role", "parts"}`."""
    message = _dict(raw)
    if message.get("type") in _CALLS | _RESULTS | _THOUGHTS:  # an item of Responses, which is none
        role = "tool" if message["type"] in _RESULTS else "assistant"
        return {"role": role, "parts": [_part(message)]}
    role = _text(message.get("role") or message.get("type") or message.get("kind")) or "user"
    told = next(
        (message[key] for key in ("content", "parts", "output", "results", "text") if message.get(key)), None
    )
    if role == "tool" and isinstance(told, str):
        return {"role": role, "parts": [_result(message.get("tool_call_id"), told)]}
    parts = (
        [{"type": "text", "content": told}] if isinstance(told, str) else [_part(one) for one in _list(told)]
    )
    parts += [_part({"type": "tool_call", **_dict(one)}) for one in _list(message.get("tool_calls"))]
    return {"role": role, "parts": parts}


def _part(raw: object) -> dict[str, Any]:
    if isinstance(raw, str):
        return {"type": "text", "content": raw}
    part = _dict(raw)
    kind = _text(part.get("type") or part.get("kind") or part.get("part_kind"))
    if kind in _TEXTS:
        return {
            "type": "text",
            "content": _text(part.get("text") or part.get("content") or part.get("refusal")),
        }
    if kind in _THOUGHTS:
        return {"type": "reasoning", "content": _thought(part)}
    if kind in _CALLS or "function" in part:
        return _call(part)
    if kind in _RESULTS or "call_id" in part:
        back = next((part[key] for key in ("content", "output", "parts") if key in part), None)
        return _result(part.get("tool_use_id") or part.get("call_id") or part.get("tool_call_id"), back)
    if kind == "message":
        return {
            "type": "text",
            "content": " ".join(_text(_dict(one).get("text")) for one in _list(part.get("content"))),
        }
    return {"type": kind or "unknown"}


def _thought(part: Mapping[str, Any]) -> str:
    told = part.get("thinking") or part.get("text") or part.get("content")
    return (
        told
        if isinstance(told, str)
        else " ".join(_text(_dict(one).get("text")) for one in _list(part.get("summary")))
    )


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    inner = _dict(part.get("function")) or part
    given = next((inner[key] for key in ("input", "arguments", "args") if key in inner), None)
    named = part.get("call_id") or part.get("tool_call_id") or part.get("id")
    return {
        "type": "tool_call",
        "id": _text(named),
        "name": _text(inner.get("name") or inner.get("tool_name")),
        "arguments": given,
    }


def _result(call: object, back: object) -> dict[str, Any]:
    found = _list(back)
    response = "\n".join(_text(_dict(one).get("text")) for one in found) if found else back
    return {"type": "tool_call_response", "id": _text(call), "response": response}


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
