"""What clouds that offer Anthropic's models share: the Messages request without what the address says already."""

from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from outlast.gateway.target import Asked, NotOffered

MESSAGES: Final = "/v1/messages"
_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def message_request(asked: Asked, cloud: str) -> dict[str, Any]:
    """The body of a model request.

    Raises:
        NotOffered: it is none; the cloud lists no models and counts no tokens in this way.
    """
    path = asked.path.partition("?")[0]
    if asked.method != "POST" or path != MESSAGES:
        reason = f"{cloud} answers model requests only, not {asked.method} {path}."
        raise NotOffered(reason)
    return msgspec.json.decode(asked.body or b"{}", type=dict[str, Any])


def model_in_path(model: object, cloud: str) -> str:
    """The model's name as one segment of a path.

    Raises:
        NotOffered: it would be another address.
    """
    if not isinstance(model, str) or not model.strip("."):
        reason = f"{model!r} names no model of {cloud}."
        raise NotOffered(reason)
    return quote(model, safe=":@")


def error_body(status: int, message: str) -> bytes:
    """A cloud's error in Anthropic's words, by which a harness knows whether to try again."""
    kind = _ERROR_TYPES.get(status, "api_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


def is_message_error(body: bytes) -> bool:
    """Whether an error is in Anthropic's words already."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any]).get("type") == "error"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


async def whole_body(response: httpx.Response, limit: int = 1024 * 1024) -> bytes:
    """The body of an error, as far as `limit`."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            break
    return bytes(body[:limit])
