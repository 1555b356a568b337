"""The Messages dialect of Anthropic's API, and of every API that is compatible with it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from outlast.adapter import ToolAsk, ToolResult
from outlast.gateway import anthropic_answers as answers
from outlast.gateway import anthropic_requests as requests
from outlast.gateway.dialect import AnswerReader, Mended, Understood
from outlast.gateway.readings import is_reading
from outlast.prices import LIST_PRICES, Price
from outlast.records import Usage

_CALL: Final = "/v1/messages"
_COUNT: Final = "/v1/messages/count_tokens"
_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicMessages:
    """See `outlast.gateway.dialect.Dialect`."""

    def __init__(self, prices: Mapping[str, Price] = LIST_PRICES) -> None:
        self._prices = prices

    @property
    def name(self) -> str:
        return "anthropic"

    def is_call(self, method: str, path: str) -> bool:
        return method == "POST" and path == _CALL

    def may_pass(self, method: str, path: str) -> bool:
        return is_reading(method, path) or (method == "POST" and path == _COUNT)

    def read(self, body: bytes) -> dict[str, Any]:
        return requests.read_request(body)

    def streams(self, request: Mapping[str, Any]) -> bool:
        return request.get("stream") is True

    def mend(self, request: Mapping[str, Any], result_of: Callable[[str], ToolResult | None]) -> Mended:
        return requests.mend(request, result_of)

    def understand(self, request: Mapping[str, Any], places: Sequence[str] = ()) -> Understood:
        return requests.understand(request, places)

    def counted(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return request

    def reader(self, model: str, *, counted: bool = False) -> AnswerReader:
        return answers.MessageReader(model, self._prices)

    def whole(self, body: bytes) -> Mapping[str, Any]:
        return answers.read_message(body)

    def asks(self, answer: Mapping[str, Any]) -> Sequence[ToolAsk]:
        return answers.asks_of(answer)

    def usage(self, answer: Mapping[str, Any], model: str) -> Usage | None:
        return answers.usage_of(answer, model, self._prices)

    def frames(self, answer: Mapping[str, Any]) -> Sequence[bytes]:
        return answers.answer_frames(answer)

    def body(self, answer: Mapping[str, Any]) -> bytes:
        return answers.answer_body(answer)

    def calm(self) -> bytes:
        return answers.PING

    def error(self, status: int, message: str) -> bytes:
        return _error(_ERROR_TYPES.get(status, "api_error"), message)

    @property
    def refusal_status(self) -> int:
        return 403

    def refusal(self, message: str) -> bytes:
        # Claude Code stops at once on 403 only with this type; with any other it asks again and again.
        return _error("invalid_request_error", message)


def _error(kind: str, message: str) -> bytes:
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
