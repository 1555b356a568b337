"""The worker's end of its supervisor's pipe."""

import errno
import os
import stat
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outlast.engine.supervisor import (
    DEADLINE_BYTES,
    DEADLINE_FD_VARIABLE,
    SPARE,
    SUPERVISOR_LOCK_VARIABLE,
    SUPERVISOR_PID_VARIABLE,
)

SUPERVISION_VARIABLES: Final[tuple[str, ...]] = (
    DEADLINE_FD_VARIABLE,
    SUPERVISOR_PID_VARIABLE,
    SUPERVISOR_LOCK_VARIABLE,
)


@dataclass(frozen=True, slots=True)
class Supervision:
    """What a worker holds of the supervisor that is its parent."""

    deadline_fd: int
    """Write deadlines here with `write_deadline`. Closing it ends the worker."""
    lock: Path
    """The lock that proves this worker's death."""


def claim_supervision(environ: MutableMapping[str, str]) -> Supervision | None:
    """Take hold of the deadline pipe at start-up, so that no program started later inherits or finds it.

    Removes the supervisor's variables from `environ` and makes the descriptor close-on-exec.

    Returns:
        None when this process has no supervisor of its own: nobody named one, or the variables were meant
        for a process further up.
    """
    fd_text, pid, lock = (environ.pop(name, "") for name in SUPERVISION_VARIABLES)
    if not fd_text.isdigit() or not lock or pid != str(os.getppid()):
        return None
    fd = int(fd_text)
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return None
    except OSError:
        return None
    os.set_inheritable(fd, False)  # noqa: FBT003 - the library's own signature
    os.set_blocking(fd, False)
    return Supervision(fd, Path(lock))


def write_deadline(fd: int, until_ns: int) -> None:
    """Tell a supervisor that its tree may live until `until_ns` (CLOCK_BOOTTIME). Never blocks; any thread.

    When the supervisor is gone, or does not read (the pipe is full), nothing is written: the last deadline
    that it read stands.
    """
    _write(fd, b"%0*d" % (DEADLINE_BYTES, max(0, until_ns)))


def write_spared(fd: int, pid: int) -> None:
    """Tell a supervisor that a descendant, with what is below it, is to outlive its tree. Never blocks; any thread.

    Where it does not get through, that process dies with the tree.
    """
    _write(fd, SPARE + b"%0*d" % (DEADLINE_BYTES - len(SPARE), pid))


def _write(fd: int, message: bytes) -> None:
    try:
        os.write(fd, message)
    except OSError as failed:
        if failed.errno not in {errno.EPIPE, errno.EAGAIN}:
            raise
