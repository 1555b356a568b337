"""What the SDK's models raise when they do not answer, as outlast tells it apart."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from agents.exceptions import ModelBehaviorError
from openai import APIError, APIStatusError

from outlast.calls import is_passing
from outlast.errors import ModelCallFailed, ModelCallRejected, PromptTooLong
from outlast.retry_after import retry_after_s

CLIENTS: Final = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
"""Packages whose errors mean that the connection broke."""
_TOO_LONG: Final = "context_length_exceeded"


@contextmanager
def told_apart(model: str) -> Generator[None]:
    """Turn what a model's client raises into what passes and what does not.

    Raises:
        ModelCallFailed, ModelCallRejected, PromptTooLong
    """
    try:
        yield
    except APIStatusError as error:
        _tell(error, model)
        raise
    except (APIError, ModelBehaviorError) as error:
        raise ModelCallFailed(status="with nothing that can be used", reason=_text(error)) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in CLIENTS:
            raise ModelCallFailed(status="with nothing", reason=_text(error)) from error
        raise


def _tell(error: APIStatusError, model: str) -> None:
    if is_passing(error.status_code):
        failed = ModelCallFailed(status=error.status_code, reason=_text(error))
        failed.retry_after_s = retry_after_s(error.response.headers)
        raise failed from error
    if error.code == _TOO_LONG:
        raise PromptTooLong(model=model, status=error.status_code, reason=_text(error)) from error
    raise ModelCallRejected(status=error.status_code, reason=_text(error)) from error


def _text(error: BaseException) -> str:
    return str(error)[:2_000]
