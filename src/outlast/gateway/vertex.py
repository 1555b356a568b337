"""Anthropic's models on Google Cloud's Vertex AI: requests mapped, tokens by Google's own library.

Format: "rawPredict" and "streamRawPredict" of publishers' models in the API reference of Vertex AI, and its page on
Anthropic's models. The stream is Anthropic's own.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol, cast

import anyio
import anyio.to_thread
import google.auth
import httpx
import msgspec
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from outlast.gateway.anthropic_elsewhere import (
    error_body,
    is_message_error,
    message_request,
    model_in_path,
    whole_body,
)
from outlast.gateway.target import Asked, Asker, Heard, NoCredential, Sent, Target, outgoing

_CLOUD: Final = "Vertex AI"
_VERSION: Final = "vertex-2023-10-16"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


class Credentials(Protocol):
    """A credential of Google Cloud, as its library gives it."""

    token: Any

    @property
    def valid(self) -> bool: ...

    def refresh(self, request: Any) -> None: ...


def default_credentials() -> Credentials:
    """As all programs of Google Cloud find them: the file of a service account, the user's login, the machine's own.

    Raises:
        NoCredential
    """
    try:
        # Google's library tells too little of its types here.
        found = cast("Credentials", google.auth.default(scopes=[_SCOPE])[0])  # pyright: ignore[reportUnknownMemberType]
    except GoogleAuthError as error:
        reason = (
            f"There is no credential of Google Cloud: {error} Run `gcloud auth application-default login`."
        )
        raise NoCredential(reason) from None
    return found


def credentials_in(file: str) -> Credentials:
    """Those of the service account whose key `file` holds.

    Raises:
        NoCredential
    """
    try:
        # Google's library tells too little of its types here.
        load = service_account.Credentials.from_service_account_file  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return cast("Credentials", load(file, scopes=[_SCOPE]))
    except (GoogleAuthError, ValueError, OSError) as error:
        reason = f"{file} holds no key of a service account of Google Cloud ({type(error).__name__})."
        raise NoCredential(reason) from None


class Vertex:
    """See `outlast.gateway.target.Upstream` and `Translator`.

    Args:
        project: of Google Cloud.
        region: `global`, or one that offers the model.
        credentials: by default those that `find` gives when the first request is made.
        base_url: by default the region's own endpoint.
    """

    def __init__(
        self,
        project: str,
        region: str,
        credentials: Credentials | None = None,
        base_url: str = "",
        find: Callable[[], Credentials] = default_credentials,
    ) -> None:
        self._project = project
        self._region = region
        self._credentials = credentials
        self._find = find
        self._base_url = (base_url or f"https://{_host(region)}/v1").rstrip("/")
        self._one = anyio.Lock()

    async def target(self, asker: Asker) -> Target:
        token = await self._token()
        return Target(self._base_url, {"authorization": f"Bearer {token}"}, translator=self)

    async def put(self, asked: Asked, target: Target) -> Sent:
        request = message_request(asked, _CLOUD)
        model = model_in_path(request.pop("model", None), _CLOUD)
        request.setdefault("anthropic_version", _VERSION)
        verb = "streamRawPredict" if request.get("stream") is True else "rawPredict"
        place = f"/projects/{self._project}/locations/{self._region}/publishers/anthropic/models"
        headers = [pair for pair in outgoing(asked.headers, target) if pair[0] != "anthropic-version"]
        return Sent("POST", f"{target.base_url}{place}/{model}:{verb}", headers, msgspec.json.encode(request))

    def hear(self, response: httpx.Response) -> Heard:
        return _VertexHeard(response)

    async def _token(self) -> str:
        async with self._one:
            try:
                if self._credentials is None:
                    self._credentials = await anyio.to_thread.run_sync(self._find)
                if not self._credentials.valid:
                    await anyio.to_thread.run_sync(self._credentials.refresh, Request())
            except GoogleAuthError as error:
                reason = f"Google Cloud gave no token: {error} Run `gcloud auth application-default login`."
                raise NoCredential(reason) from None
            return str(self._credentials.token)


def _host(region: str) -> str:
    if region == "global":
        return "aiplatform.googleapis.com"
    if region in {"us", "eu"}:
        return f"aiplatform.{region}.rep.googleapis.com"
    return f"{region}-aiplatform.googleapis.com"


class _VertexHeard(Heard):
    """A response of Vertex; only its own errors are in other words."""

    async def chunks(self) -> AsyncIterator[bytes]:
        if self.is_success:
            async for chunk in super().chunks():
                yield chunk
            return
        body = await whole_body(self._response)
        yield body if is_message_error(body) else error_body(self.status, _reason(body))

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        if self.is_success:
            return super().headers
        kept = [pair for pair in super().headers if pair[0] != "content-type"]
        return (*kept, ("content-type", "application/json"))


class _Error(msgspec.Struct):
    message: str = ""


class _Said(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


def _reason(body: bytes) -> str:
    try:
        said = msgspec.json.decode(body, type=_Said | list[_Said])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = _Said()
    # An error of a stream comes in a list.
    first = said if isinstance(said, _Said) else next(iter(said), _Said())
    return first.error.message or "Vertex AI gave no reason."
