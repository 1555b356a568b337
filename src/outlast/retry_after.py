"""How long a provider asks to be left alone, from the headers of its response."""

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

MOST_S: Final = 24 * 3600.0
"""No response is obeyed for longer than this."""


def retry_after_s(headers: Mapping[str, str], now_s: float | None = None) -> float:
    """The wait that a response asks for: seconds, a date (RFC 9110, section 10.2.3), or OpenAI's milliseconds.

    Args:
        headers: found by lower-case names.
        now_s: seconds since 1970, by which a date is taken where the response does not say when it was made; None: then
            a date says nothing.
    """
    text = headers.get("retry-after", "")
    waits = [_number(headers.get("retry-after-ms", "")) / 1000, _number(text)]
    until_s, began_s = _moment_s(text), _moment_s(headers.get("date", ""))
    began_s = now_s if began_s is None else began_s
    if until_s is not None and began_s is not None:
        waits.append(until_s - began_s)
    return min(max(0.0, *waits), MOST_S)


def _moment_s(text: str) -> float | None:
    try:
        found = parsedate_to_datetime(text)
        # One without a zone is of UTC: HTTP knows no other.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0
