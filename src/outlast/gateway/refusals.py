"""Answers that are none: errors that a harness may try again on, and refusals at which it stops."""

from outlast.gateway.dialect import Dialect
from outlast.gateway.feed import Whole
from outlast.gateway.wire import JSON


def error(dialect: Dialect, status: int, message: str) -> Whole:
    """An error response in the harness's dialect."""
    return Whole(status, dialect.error(status, message), JSON)


def redirected(dialect: Dialect, status: int, place: str) -> Whole:
    """In place of a redirect, which a harness would follow by itself: past the log, and with its token in its hand."""
    return refused(
        dialect, f"the provider's address leads elsewhere ({status} to {place}); set the base URL to that one"
    )


def refused(dialect: Dialect, why: str) -> Whole:
    """A response at which the harness stops at once."""
    return Whole(dialect.refusal_status, dialect.refusal(f"outlast lets nothing through: {why}."), JSON)
