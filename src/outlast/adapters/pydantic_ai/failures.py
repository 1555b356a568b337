"""What pydantic-ai raises when a model does not answer, as outlast tells it apart, and back."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
)

from outlast.calls import is_passing
from outlast.errors import ModelCallFailed, ModelCallRejected, PromptTooLong
from outlast.retry_after import retry_after_s

CLIENTS = ("anthropic", "openai", "httpx", "httpx2", "httpcore", "httpcore2")
"""Packages whose errors mean that the connection broke, where pydantic-ai passes them on."""


@contextmanager
def told_apart(model: str) -> Generator[None]:
    """Turn what a model's client raises into what passes and what does not.

    Raises:
        ModelCallFailed, ModelCallRejected, PromptTooLong
    """
    try:
        yield
    except Exception as error:
        _tell(error, model)
        raise


def _tell(error: BaseException, model: str) -> None:
    match error:
        case FallbackExceptionGroup():
            # The first that may pass decides; else the last says why.
            for one in sorted(error.exceptions, key=lambda one: isinstance(one, ModelRequestRejectedError)):
                _tell(one, model)
        case ModelContextWindowExceededError():
            raise PromptTooLong(model=model, status=_status(error), reason=_text(error)) from error
        case ModelHTTPError():
            _of_status(error)
        case ModelRequestRejectedError():
            raise ModelCallRejected(status=_status(error), reason=_text(error)) from error
        case ModelAPIError() | UnexpectedModelBehavior():
            raise ModelCallFailed(status="with nothing that can be used", reason=_text(error)) from error
        case _ if type(error).__module__.partition(".")[0] in CLIENTS:
            raise ModelCallFailed(status="with nothing", reason=_text(error)) from error
        case _:
            pass


def _of_status(error: ModelHTTPError) -> NoReturn:
    if not is_passing(error.status_code):
        raise ModelCallRejected(status=error.status_code, reason=_text(error)) from error
    failed = ModelCallFailed(status=error.status_code, reason=_text(error))
    failed.retry_after_s = retry_after_s(error.headers or {})
    raise failed from error


def as_raised(error: ModelCallRejected, model: str) -> ModelHTTPError:
    """A refusal as pydantic-ai's own code, and its user's, know it: the same in every attempt."""
    status = error.facts.get("status")
    return ModelHTTPError(status if isinstance(status, int) else 400, model, error.facts.get("reason"))


def _status(error: BaseException) -> int:
    status = getattr(error, "status_code", 400)
    return status if isinstance(status, int) else 400


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2_000]
