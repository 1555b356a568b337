"""Errors in the words of OpenAI's APIs: of Responses, of Chat Completions, and of all that are compatible."""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

REFUSED_STATUS: Final = 400
"""Codex stops at once at this one only; OpenAI's own client tries none below 500 again but 408, 409 and 429."""

_CODES: Final = {
    401: "invalid_api_key",
    404: "not_found",
    413: "request_too_large",
    429: "rate_limit_exceeded",
}


def error_body(status: int, message: str) -> bytes:
    """The body of an error response."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}
    return msgspec.json.encode({"error": error})


def refusal_body(message: str) -> bytes:
    """The body of a response of `REFUSED_STATUS`."""
    return error_body(REFUSED_STATUS, message)


def error_text(error: object) -> str:
    """What an error within a stream says."""
    if not isinstance(error, Mapping):
        return "the provider reported an error"
    said = cast("Mapping[str, Any]", error)
    kind = said.get("code") or said.get("type") or "error"
    return f"{kind}: {said.get('message') or ''}"
