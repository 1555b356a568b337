"""What the errors of Postgres, of its driver and of the system mean for a World.

Whatever happens to a statement that writes, it may have landed, unless the server itself said that it did not; both are
`WorldUnavailable`, and the identical call may be made again.
"""

from typing import Final

from outlast.errors import (
    BadPayload,
    OutlastError,
    WorldForeign,
    WorldFull,
    WorldReadOnly,
    WorldUnavailable,
)

AGAIN: Final = frozenset({"40P01", "40001", "55P03"})
"""Deadlock, serialization failure, lock not available: rolled back by the server, to be run again at once."""
_READ_ONLY: Final = frozenset({"25006", "42501"})
_FULL: Final = frozenset({"53100"})
_MISSING: Final = frozenset({"42P01", "3F000", "42703", "42883"})
_TOO_LONG: Final = frozenset({"54000"})


def code_of(error: BaseException) -> str | None:
    """The SQLSTATE that the server gave, if it was the server that spoke."""
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None


def unavailable(world: str, error: BaseException) -> OutlastError:
    """The error of the World `world` that says what `error` means for whoever uses it."""
    if isinstance(error, OutlastError):
        return error
    code = code_of(error)
    if code in _READ_ONLY:
        return WorldReadOnly(world=world, reason=str(error))
    if code in _FULL:
        return WorldFull(world=world, reason="the disk of its server is full")
    if code in _MISSING:
        return WorldForeign(world=world, reason=f"its tables are gone or were changed: {error}")
    if code in _TOO_LONG:
        return BadPayload(what="A name", reason=f"Postgres cannot index it: {error}")
    if isinstance(error, TimeoutError):
        return WorldUnavailable(world=world, reason="its server did not answer in time")
    return WorldUnavailable(world=world, reason=f"{type(error).__name__}: {error}")
