"""What went wrong in asking a model, by whichever provider's SDK LangChain asked it."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from outlast.calls import is_passing
from outlast.errors import ModelCallFailed, ModelCallRejected
from outlast.retry_after import retry_after_s

_LOST: Final = {
    "APIConnectionError",
    "APITimeoutError",
    "TransportError",
    "ConnectError",
    "ServiceUnavailable",
}
"""Names of the errors by which SDKs tell of a connection that broke, or was never there."""


@contextmanager
def told() -> Generator[None]:
    """Make of an SDK's error the failure that it is; what is none of a provider's is left as it is.

    Raises:
        ModelCallFailed, ModelCallRejected
    """
    try:
        yield
    except Exception as error:
        status = _status(error)
        if status is None:
            if _names(error) & _LOST or isinstance(error, TimeoutError | ConnectionError):
                raise ModelCallFailed(status="nothing", reason=_text(error)) from error
            raise
        if not is_passing(status):
            raise ModelCallRejected(status=status, reason=_text(error)) from error
        failed = ModelCallFailed(status=status, reason=_text(error))
        failed.retry_after_s = retry_after_s(_headers(error))
        raise failed from error


def _status(error: Exception) -> int | None:
    found = getattr(error, "status_code", None)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _names(error: Exception) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _headers(error: Exception) -> Mapping[str, str]:
    return getattr(getattr(error, "response", None), "headers", None) or {}


def _text(error: Exception) -> str:
    return str(error)[:500] or type(error).__name__
