"""Models behind OpenAI's Chat Completions API, asked with OpenAI's own SDK; any compatible base URL."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

import anyio

from outlast.codec import to_json
from outlast.errors import ExtraMissing, ModelCallRejected
from outlast.model import Answer, AssistantMessage, Request, Show, quiet
from outlast.models.openai_answer import OpenAIReader
from outlast.models.openai_body import PROVIDER, body_of
from outlast.prices import OPENAI_PRICES, Price

try:
    import openai
    from openai import AsyncStream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    from outlast.models.client import HttpModel
    from outlast.models.wire import JSON, Limits, broken, declined, failed, hear, telling, without
except ModuleNotFoundError as missing:
    raise ExtraMissing(
        what="Asking models over OpenAI's API", install="pip install 'outlast[openai]'"
    ) from missing

_OPENAI: Final = "api.openai.com"
_TOO_LONG: Final = "context_length_exceeded"
_TOO_LONG_WORDS: Final = ("maximum context length", "context length exceeded", "exceeds the context")


class OpenAIChat(HttpModel):
    """See `outlast.model.Model`.

    Args:
        name: the model.
        api_key: by default `OPENAI_API_KEY`. A server that wants none takes any text.
        base_url: by default `OPENAI_BASE_URL`, else OpenAI's own; of most servers it ends in `/v1`.
        max_tokens: the most that an answer may have, where its request names none; 0 leaves it to the provider.
        context_tokens: how much the model takes; for whoever compacts. 0: not known.
        headers: sent with each request. They are in no log.
        limits: how long to wait.
        prices: what tokens cost.
    """

    def __init__(  # noqa: PLR0913 - each keyword is a setting of its own
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = 0,
        context_tokens: int = 0,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        prices: Mapping[str, Price] = OPENAI_PRICES,
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

    def versions(self) -> Mapping[str, str]:
        return {"openai": openai.__version__}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        reader = OpenAIReader(request.model, self._prices, _ids(request))
        with telling(reader), anyio.fail_after(self._limits.total_s):
            async with self._lines.open() as line:
                try:
                    client = openai.AsyncOpenAI(
                        api_key=self._api_key,
                        base_url=self._base_url,
                        max_retries=0,  # whoever asks owns the retries
                        default_headers=self._headers,
                        http_client=line,
                    )
                except openai.OpenAIError as error:
                    raise ModelCallRejected(status="no key", reason=str(error)) from None
                # OpenAI's own reasoning models refuse the old word, most other servers do not know the new one.
                most = "max_completion_tokens" if client.base_url.host == _OPENAI else "max_tokens"
                body = body_of(request, max_tokens=self._max_tokens, most=most)
                with _translated(client, request.model, reader):
                    async with await _send(client, body) as stream:
                        kind = stream.response.headers.get("content-type", "")
                        await hear(stream, kind, reader, show)
            return reader.answer()


def _ids(request: Request) -> list[str]:
    answers = [message for message in request.messages if isinstance(message, AssistantMessage)]
    return [call.id for answer in answers for call in answer.tool_calls]


async def _send(client: openai.AsyncOpenAI, body: dict[str, Any]) -> "AsyncStream[ChatCompletionChunk]":
    # As bytes: the provider's cache knows the prompt again whatever another version of the SDK would make of it.
    return await client.post(
        "/chat/completions",
        content=to_json(body, what="The model request"),
        options={"headers": JSON},
        cast_to=ChatCompletion,
        stream=True,
        stream_cls=AsyncStream[ChatCompletionChunk],
    )


@contextmanager
def _translated(client: openai.AsyncOpenAI, model: str, reader: OpenAIReader) -> Generator[None]:
    try:
        yield
    except openai.APIStatusError as error:
        reason = without(client.api_key, _reason(error))
        too_long = error.code == _TOO_LONG or (
            error.status_code in {400, 413} and any(words in reason for words in _TOO_LONG_WORDS)
        )
        headers = error.response.headers
        raise declined(error.status_code, reason, headers=headers, model=model, too_long=too_long) from None
    except openai.APIConnectionError as error:
        raise broken(error, reader) from None
    except openai.OpenAIError as error:
        # The provider broke off in the midst of a stream; what is final it says before it begins.
        raise failed("with half an answer", without(client.api_key, str(error)), reader) from None


def _reason(error: openai.APIStatusError) -> str:
    """What the provider said, without the SDK's words around it."""
    body = error.body
    said = cast("dict[str, Any]", body).get("message") if isinstance(body, dict) else None
    return str(said or error.message)
