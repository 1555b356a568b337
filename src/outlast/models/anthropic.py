"""Models behind Anthropic's Messages API, asked with Anthropic's own SDK; any compatible base URL."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import anyio

from outlast.codec import to_json
from outlast.errors import ExtraMissing, ModelCallRejected
from outlast.model import Answer, Request, Show, quiet
from outlast.models.anthropic_answer import AnthropicReader
from outlast.models.anthropic_body import PROVIDER, body_of
from outlast.prices import LIST_PRICES, Price

try:
    import anthropic
    import httpx2
    from anthropic import AsyncStream
    from anthropic.types import Message
    from anthropic.types import RawMessageStreamEvent as Event

    from outlast.models.client import HttpModel
    from outlast.models.wire import JSON, Limits, broken, declined, failed, hear, telling, without
except ModuleNotFoundError as missing:
    raise ExtraMissing(
        what="Asking models over Anthropic's API", install="pip install 'outlast[anthropic]'"
    ) from missing

# Errors that come in the midst of a stream have only their type ("Errors" in Anthropic's API reference).
_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TOO_LONG: Final = ("prompt is too long", "exceed context limit", "input length and `max_tokens`")


class Anthropic(HttpModel):
    """See `outlast.model.Model`.

    Args:
        name: the model.
        api_key: by default what the SDK finds: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`, a profile.
        base_url: by default `ANTHROPIC_BASE_URL`, else Anthropic's own.
        max_tokens: the most that an answer may have, where its request names none.
        context_tokens: how much the model takes; for whoever compacts.
        cache: let the provider keep prompts for five minutes: a write costs a quarter more, a read a tenth.
        headers: sent with each request, `anthropic-beta` for one. They are in no log.
        limits: how long to wait.
        prices: what tokens cost.
    """

    def __init__(  # noqa: PLR0913 - each keyword is a setting of its own
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = 32_000,
        context_tokens: int = 200_000,
        cache: bool = True,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        prices: Mapping[str, Price] = LIST_PRICES,
    ) -> None:
        super().__init__(
            name,
            provider=PROVIDER,
            api_key=api_key,
            base_url=base_url,
            max_tokens=max_tokens,
            context_tokens=context_tokens,
            headers=headers,
            limits=limits,
            prices=prices,
        )
        self._cache = cache

    def versions(self) -> Mapping[str, str]:
        return {"anthropic": anthropic.__version__}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        body = body_of(request, max_tokens=self._max_tokens, cache=self._cache)
        reader = AnthropicReader(request.model, self._prices)
        with telling(reader), anyio.fail_after(self._limits.total_s):
            async with self._lines.open() as line:
                client = self._client(line)
                with _translated(client, request.model, reader):
                    async with await _send(client, body) as stream:
                        kind = stream.response.headers.get("content-type", "")
                        await hear(stream, kind, reader, show)
            return reader.answer()

    def _client(self, line: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
        try:
            client = anthropic.AsyncAnthropic(
                api_key=self._api_key,
                base_url=self._base_url,
                max_retries=0,  # whoever asks owns the retries
                default_headers=self._headers,
                open_telemetry=False,  # spans come from committed records
                http_client=line,
            )
        except anthropic.AnthropicError as error:
            raise ModelCallRejected(status="no key", reason=f"{error} Set ANTHROPIC_API_KEY.") from None
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise ModelCallRejected(status="no key", reason="Set ANTHROPIC_API_KEY, or give `api_key`.")
        return client


async def _send(client: anthropic.AsyncAnthropic, body: dict[str, Any]) -> "AsyncStream[Event]":
    # As bytes: the provider's cache knows the prompt again whatever another version of the SDK would make of it.
    return await client.post(
        "/v1/messages",
        content=to_json({**body, "stream": True}, what="The model request"),
        options={"headers": JSON},
        cast_to=Message,
        stream=True,
        stream_cls=AsyncStream[Event],
    )


@contextmanager
def _translated(client: anthropic.AsyncAnthropic, model: str, reader: AnthropicReader) -> Generator[None]:
    try:
        yield
    except anthropic.APIStatusError as error:
        status = error.status_code
        if error.response.is_success:
            status = _STATUSES.get(str(error.type), 500)
        reason = without(client.api_key or client.auth_token, error.api_message or error.message)
        too_long = status in {400, 413} and any(words in reason for words in _TOO_LONG)
        told = declined(status, reason, headers=error.response.headers, model=model, too_long=too_long)
        told.usage = reader.usage
        raise told from None
    except anthropic.APIConnectionError as error:
        raise broken(error, reader) from None
    except anthropic.AnthropicError as error:
        raise failed("with nothing", str(error), reader) from None
