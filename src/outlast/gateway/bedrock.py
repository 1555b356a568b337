"""Anthropic's models on Amazon Bedrock: requests mapped and signed, event streams of AWS decoded.

Formats: "InvokeModel" and "InvokeModelWithResponseStream" in the API reference of Amazon Bedrock; "Anthropic Claude
Messages API" in its user guide, which also lists the betas.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import anyio.to_thread
import httpx
import msgspec

from outlast.gateway import sse
from outlast.gateway.anthropic_elsewhere import error_body, message_request, model_in_path, whole_body
from outlast.gateway.aws import AwsBroken, AwsEvents, Signs
from outlast.gateway.sse import Malformed
from outlast.gateway.target import JOINED, Asked, Asker, Heard, Sent, Target
from outlast.gateway.wire import Header

_CLOUD: Final = "Amazon Bedrock"
_VERSION: Final = "bedrock-2023-05-31"
_EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
# A beta that Bedrock does not know makes it refuse the whole request.
_BETAS: Final = frozenset(
    {
        "computer-use-2024-10-22",
        "computer-use-2025-01-24",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "dev-full-thinking-2025-05-14",
        "effort-2025-11-24",
        "interleaved-thinking-2025-05-14",
        "output-128k-2025-02-19",
        "token-efficient-tools-2025-02-19",
        "tool-examples-2025-10-29",
        "tool-search-tool-2025-10-19",
    }
)
_ERROR_TYPES: Final = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "validationException": "invalid_request_error",
}


class Bedrock:
    """See `outlast.gateway.target.Upstream` and `Translator`.

    Args:
        region: of AWS; it is a part of the signature.
        signs: the credential.
        base_url: by default the region's own endpoint.
    """

    def __init__(self, region: str, signs: Signs, base_url: str = "") -> None:
        self._region = region
        self._signs = signs
        self._base_url = (base_url or f"https://bedrock-runtime.{region}.amazonaws.com").rstrip("/")

    async def target(self, asker: Asker) -> Target:
        return Target(self._base_url, translator=self)

    async def put(self, asked: Asked, target: Target) -> Sent:
        request = message_request(asked, _CLOUD)
        model = model_in_path(request.pop("model", None), _CLOUD)
        stream = request.pop("stream", None) is True
        request.setdefault("anthropic_version", _VERSION)
        if betas := _betas(asked.headers):
            request.setdefault("anthropic_beta", betas)
        url = f"{target.base_url}/model/{model}/invoke{'-with-response-stream' if stream else ''}"
        body = msgspec.json.encode(request)
        accepted = {
            "content-type": "application/json",
            "accept": _EVENT_STREAM if stream else "application/json",
        }
        signed = await anyio.to_thread.run_sync(self._signs.headers, url, accepted, body, self._region)
        return Sent("POST", url, [*signed.items(), ("accept-encoding", "identity")], body)

    def hear(self, response: httpx.Response) -> Heard:
        return _BedrockHeard(response)


def _betas(headers: list[Header]) -> list[str]:
    given = [beta.strip() for name, value in headers if name == JOINED for beta in value.split(",")]
    return [beta for beta in given if beta in _BETAS]


class _BedrockHeard(Heard):
    """A response of Bedrock as one of Anthropic's API."""

    @property
    def kind(self) -> str:
        return "text/event-stream" if super().kind == _EVENT_STREAM else super().kind

    @property
    def headers(self) -> tuple[Header, ...]:
        kind = "application/json" if self.kind != "text/event-stream" else self.kind
        return tuple(
            (name, kind if name == "content-type" else value)
            for name, value in super().headers
            if not name.startswith("x-amzn-bedrock")
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        if not self.is_success:
            yield error_body(self.status, self._reason(await whole_body(self._response)))
        elif super().kind != _EVENT_STREAM:
            async for chunk in super().chunks():
                yield chunk
        else:
            async for frame in self._frames():
                yield frame

    async def _frames(self) -> AsyncIterator[bytes]:
        events = AwsEvents()
        try:
            async for chunk in super().chunks():
                for headers, payload in events.feed(chunk):
                    yield _frame(headers, payload)
        except AwsBroken as error:
            reason = f"the event stream of AWS is broken: {error}"
            raise Malformed(reason) from None

    def _reason(self, body: bytes) -> str:
        kind = self._response.headers.get("x-amzn-errortype", "").partition(":")[0]
        try:
            said = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            said = {}
        message = str(said.get("message") or said.get("Message") or "Amazon Bedrock gave no reason.")
        return f"{kind}: {message}" if kind else message


def _frame(headers: Mapping[str, Any], payload: bytes) -> bytes:
    """An event of AWS as one of Anthropic's stream."""
    try:
        said = msgspec.json.decode(payload or b"{}", type=dict[str, Any])
        if headers.get(":message-type", "event") != "event":
            return _error_frame(headers, said)
        data = base64.b64decode(said.get("bytes", ""), validate=True)
        kind = msgspec.json.decode(data, type=dict[str, Any]).get("type", "")
    except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error, TypeError) as error:
        reason = f"an event of AWS holds no event: {error}"
        raise Malformed(reason) from None
    if b"\n" in data or b"\r" in data or not isinstance(kind, str):
        reason = "an event of AWS holds more than a line"
        raise Malformed(reason)
    return sse.frame(kind, data)


def _error_frame(headers: Mapping[str, Any], said: Mapping[str, Any]) -> bytes:
    kind = str(headers.get(":exception-type") or headers.get(":error-code") or "error")
    message = str(said.get("message") or headers.get(":error-message") or "Amazon Bedrock broke off.")
    error = {"type": _ERROR_TYPES.get(kind, "api_error"), "message": f"{kind}: {message}"}
    return sse.frame("error", msgspec.json.encode({"type": "error", "error": error}))
