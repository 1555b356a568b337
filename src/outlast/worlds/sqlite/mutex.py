"""The line in which writers of several processes stand before the database's own lock.

SQLite lets writers poll for its lock, which starves some of them for seconds; `flock` wakes whoever waits. The kernel
frees it when its holder dies, however it dies.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType

_TEXT = 24


class Mutex:
    """A lock between processes; `with` it. Belongs to one thread, `holder` may be asked by any."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._me = str(os.getpid()).encode().ljust(_TEXT)
        self.waits = False
        """Somebody of this process waits for it right now."""

    def __enter__(self) -> None:
        self.waits = True
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self.waits = False
        self._sign()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    def take(self) -> bool:
        """Take it unless another process has it; returns whether it is ours now. Whoever took it calls `free`."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._sign()
        return True

    def free(self) -> None:
        """Give it to whoever waits."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _sign(self) -> None:
        # Written only when the holder changes: a dirty inode here would ride along in the database's fsync.
        if os.pread(self._fd, _TEXT, 0) != self._me:
            os.pwrite(self._fd, self._me, 0)

    def holder(self) -> str:
        """Who took it last, in words."""
        pid = os.pread(self._fd, _TEXT, 0).decode(errors="replace").strip()
        try:
            words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return f"process {pid or 'unknown'}"
        name, _, rest = words.partition("(")[2].rpartition(")")
        return f"process {pid} ({name}{', stopped' if rest.split()[:1] == ['T'] else ''})"

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
