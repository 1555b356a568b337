"""The Chat Completions dialect of OpenAI's API, and of every API that is compatible with it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from outlast.adapter import ToolAsk, ToolResult
from outlast.gateway import openai_chat_answers as answers
from outlast.gateway import openai_chat_requests as requests
from outlast.gateway.dialect import AnswerReader, Mended, Understood
from outlast.gateway.openai_errors import REFUSED_STATUS, error_body, refusal_body
from outlast.gateway.readings import is_reading
from outlast.prices import OPENAI_PRICES, Price
from outlast.records import Usage

_CALLS: Final = frozenset({"/v1/chat/completions", "/chat/completions"})


class OpenAIChat:
    """See `outlast.gateway.dialect.Dialect`."""

    def __init__(self, prices: Mapping[str, Price] = OPENAI_PRICES) -> None:
        self._prices = prices

    @property
    def name(self) -> str:
        return "openai-chat"

    def is_call(self, method: str, path: str) -> bool:
        return method == "POST" and path in _CALLS

    def may_pass(self, method: str, path: str) -> bool:
        return is_reading(method, path)

    def read(self, body: bytes) -> dict[str, Any]:
        return requests.read_request(body)

    def streams(self, request: Mapping[str, Any]) -> bool:
        return request.get("stream") is True

    def mend(self, request: Mapping[str, Any], result_of: Callable[[str], ToolResult | None]) -> Mended:
        return requests.mend(request, result_of)

    def understand(self, request: Mapping[str, Any], places: Sequence[str] = ()) -> Understood:
        return requests.understand(request, places)

    def counted(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return requests.counted(request)

    def reader(self, model: str, *, counted: bool = False) -> AnswerReader:
        return answers.CompletionReader(model, self._prices, counted=counted)

    def whole(self, body: bytes) -> Mapping[str, Any]:
        return answers.read_completion(body)

    def asks(self, answer: Mapping[str, Any]) -> Sequence[ToolAsk]:
        return answers.asks_of(answer)

    def usage(self, answer: Mapping[str, Any], model: str) -> Usage | None:
        return answers.usage_of(answer, model, self._prices)

    def frames(self, answer: Mapping[str, Any]) -> Sequence[bytes]:
        return answers.answer_frames(answer)

    def body(self, answer: Mapping[str, Any]) -> bytes:
        return answers.answer_body(answer)

    def calm(self) -> bytes:
        return answers.COMMENT

    def error(self, status: int, message: str) -> bytes:
        return error_body(status, message)

    @property
    def refusal_status(self) -> int:
        return REFUSED_STATUS

    def refusal(self, message: str) -> bytes:
        return refusal_body(message)
