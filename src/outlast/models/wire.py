"""What clients of all providers share: connections, deadlines, and what is made of their failures."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import anyio
import httpx2

from outlast.calls import is_passing
from outlast.errors import ModelCallFailed, ModelCallRejected, ModelError, PromptTooLong
from outlast.model import Show
from outlast.models.reading import Nonsense, Reader
from outlast.retry_after import retry_after_s

EVENT_STREAM: Final = "text/event-stream"
JSON: Final = {"content-type": "application/json"}
_NOTHING: Final = "with nothing"
_HALF: Final = "with half an answer"
_NONSENSE: Final = "with nonsense"
_NEAR: Final = ("127.0.0.1", "localhost", "[::1]")
_REASON_MOST: Final = 2_000
_CLOSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a model is waited for. A model that thinks may say nothing for minutes."""

    connect_s: float = 10.0
    silence_s: float = 600.0
    """Without a byte from the provider."""
    total_s: float = 3600.0
    """For the whole answer."""


class Lines:
    """Connections to one provider, each for one call: none is kept that might be stale when the next call comes."""

    def __init__(self, limits: Limits) -> None:
        self._timeout = httpx2.Timeout(limits.silence_s, connect=limits.connect_s, pool=limits.connect_s)
        self._trusted: ssl.SSLContext | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[httpx2.AsyncClient]:
        """A client of HTTP until the block ends. It follows no redirect: the key is for the address that was named."""
        trusted = self._trusted = self._trusted or httpx2.create_ssl_context()
        # A proxy of the environment leads out into the world; it does not know this machine's own servers.
        near = {f"all://{name}": httpx2.AsyncHTTPTransport(verify=trusted) for name in _NEAR}
        client = httpx2.AsyncClient(
            verify=trusted, timeout=self._timeout, mounts=near, follow_redirects=False
        )
        try:
            yield client
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_S):
                await client.aclose()


async def hear(stream: AsyncIterator[Any], content_type: str, reader: Reader, show: Show) -> None:
    """Read an SDK's stream of events to its end.

    Raises:
        Nonsense: an event cannot be read or cannot stand there, or it is no stream of events.
    """
    if content_type.partition(";")[0].strip().lower() != EVENT_STREAM:
        _nonsense(f"it is {content_type or 'of no kind'}, not a stream of events")
    while (event := await _next(stream)) is not None:
        for kind, piece in reader.read(event):
            show(kind, piece)


async def _next(stream: AsyncIterator[Any]) -> dict[str, Any] | None:
    try:
        event = await anext(stream)
        return event.to_dict(mode="json")
    except StopAsyncIteration:
        return None
    except (ValueError, TypeError, AttributeError, LookupError) as error:  # so SDKs fail on what is no event
        _nonsense(f"an event cannot be read: {error}")


@contextmanager
def telling(reader: Reader) -> Generator[None]:
    """Make of everything that can go wrong on the way the failure that it is.

    Raises:
        ModelCallFailed
        ModelCallRejected: the base URL is none that can be called.
    """
    try:
        yield
    except Nonsense as error:
        raise failed(_NONSENSE, f"{error}.", reader) from None
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise failed(_so_far(reader), f"no answer in time ({type(error).__name__}).", reader) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise broken(error, reader) from None


def broken(error: Exception, reader: Reader) -> ModelError:
    """The failure of a connection, of which an SDK tells by an error of its own."""
    cause = type(error.__cause__ or error)
    if issubclass(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        reason = f"its base URL is none that can be called, as https://host is ({cause.__name__})."
        return ModelCallRejected(status="no address", reason=reason)
    late = issubclass(cause, httpx2.TimeoutException)
    what = "no answer in time" if late else "the connection broke"
    return failed(_so_far(reader), f"{what} ({cause.__name__}).", reader)


def failed(status: int | str, reason: str, reader: Reader | None = None) -> ModelCallFailed:
    """A failure that may pass."""
    error = ModelCallFailed(status=status, reason=reason[:_REASON_MOST])
    error.usage = None if reader is None else reader.usage
    return error


def declined(
    status: int, reason: str, *, headers: Mapping[str, str], model: str, too_long: bool
) -> ModelError:
    """The provider's error response, as a failure that passes or one that does not."""
    reason = reason[:_REASON_MOST]
    error: ModelError
    if too_long:
        error = PromptTooLong(model=model, status=status, reason=reason)
    elif is_passing(status):
        error = ModelCallFailed(status=status, reason=reason)
    else:
        error = ModelCallRejected(status=status, reason=reason)
    error.retry_after_s = retry_after_s(headers)
    return error


def without(secret: str | None, text: str) -> str:
    """`text` without a key that the provider may quote."""
    return text.replace(secret, "…") if secret else text


def _so_far(reader: Reader) -> str:
    return _HALF if reader.began else _NOTHING


def _nonsense(reason: str) -> NoReturn:
    raise Nonsense(reason)
