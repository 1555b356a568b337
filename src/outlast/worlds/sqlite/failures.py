"""What the errors of SQLite and of the system mean for a World."""

import errno

import apsw

from outlast.errors import WorldFull, WorldReadOnly, WorldUnavailable

_FULL = {errno.ENOSPC, errno.EDQUOT}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def unavailable(world: str, error: Exception) -> WorldUnavailable:
    """The error of the World `world` that says what `error` means for whoever uses it."""
    match error:
        case WorldUnavailable():
            return error
        case apsw.FullError():
            return WorldFull(world=world, reason="the disk or the quota is full")
        case apsw.ReadOnlyError():
            return WorldReadOnly(world=world, reason=str(error))
        case apsw.BusyError():
            return WorldUnavailable(world=world, reason="another program holds the lock of its database")
        case apsw.CorruptError() | apsw.NotADBError():
            return WorldUnavailable(
                world=world, reason=f"its file is damaged ({error}); put back a copy of it"
            )
        case OSError(errno=code) if code in _FULL:
            return WorldFull(world=world, reason="the disk or the quota is full")
        case OSError(errno=code) if code in _READ_ONLY:
            return WorldReadOnly(world=world, reason=str(error))
        case _:
            return WorldUnavailable(world=world, reason=f"{type(error).__name__}: {error}")
