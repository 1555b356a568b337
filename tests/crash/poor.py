"""A machine that lacks something, for the programs that are started on it: a disk of a few megabytes, no namespaces."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_PRIVATE = (1 << 18) | 16384


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _done(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def _unshare(spaces: int) -> None:
    """New namespaces; of a user who is not root in one where it may do what follows."""
    _done(_libc().unshare(spaces | (0 if os.geteuid() == 0 else _NEW_USER)), "unshare")
    sys.stdout.write("unshared\n")
    sys.stdout.flush()
    sys.stdin.readline()


def _map_users(of: Path) -> None:
    """The same users there as here: who is root keeps all, anybody else itself."""
    all_of_them = os.geteuid() == 0
    if not all_of_them:
        (of / "setgroups").write_text("deny")
    for name, own in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
        (of / name).write_text("0 0 4294967295" if all_of_them else f"{own} {own} 1")


def small_disk(at: str, size: str) -> None:
    """Mount a disk of so many bytes, seen by whoever enters."""
    _unshare(_NEW_MOUNTS)
    _done(_libc().mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE), None), "private")
    options = f"size={size},mode=777".encode()
    _done(_libc().mount(b"tmpfs", os.fsencode(at), b"tmpfs", ctypes.c_ulong(0), options), "tmpfs")


def no_namespaces() -> None:
    """Forbid user namespaces, as `sysctl user.max_user_namespaces=0` does."""
    _unshare(_NEW_USER)
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


@contextmanager
def machine(what: str, *words: str) -> Generator[Callable[[], None]]:
    """The machine, while the context lasts: what a child calls before its program (`preexec_fn`)."""
    command = [sys.executable, "-m", "tests.crash.poor", what, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "unshared\n"
        of, own = Path(f"/proc/{holder.pid}"), Path("/proc/self/ns")
        kinds = [kind for kind in ("user", "mnt") if (of / "ns" / kind).readlink() != (own / kind).readlink()]
        if "user" in kinds:
            _map_users(of)
        holder.stdin.write("go\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "ready\n"
        spaces = [os.open(of / "ns" / kind, os.O_RDONLY) for kind in kinds]

        def enter() -> None:
            for fd in spaces:
                _done(_libc().setns(fd, 0), "setns")

        try:
            yield enter
        finally:
            for fd in spaces:
                os.close(fd)
            holder.stdin.close()


if __name__ == "__main__":
    {"small_disk": small_disk, "no_namespaces": no_namespaces}[sys.argv[1]](*sys.argv[2:])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
