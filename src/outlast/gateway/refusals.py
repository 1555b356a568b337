"""Answers that are none: errors that a harness may try again on, and refusals at which it stops."""

from outlast.gateway.dialect import Dialect
from outlast.gateway.feed import Whole
from outlast.gateway.wire import JSON


def error(dialect: Dialect, status: int, message: str) -> Whole:
    """An error response in the harness's dialect."""
    return Whole(status, dialect.error(status, message), JSON)


def refused(dialect: Dialect, why: str) -> Whole:
    """A response at which the harness stops at once."""
    return Whole(dialect.refusal_status, dialect.refusal(f"outlast lets nothing through: {why}."), JSON)
