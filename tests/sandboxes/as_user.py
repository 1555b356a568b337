"""The contract, and whatever else, as an ordinary user: what root may do hides what others may not.

Where the tests run as root, a child takes a user of its own, with a view of the machine in which that user reaches the
Python that runs them; where they do not, it is a child like any other.
"""

import ctypes
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import anyio

from outlast.testing.sandbox_contract import run_contract
from tests.sandboxes.grounds import on_bubblewrap

USER = 54_321
_NEW_MOUNTS, _PRIVATE, _BIND = 0x20000, (1 << 18) | 16384, 4096 | 16384


def become_user() -> None:
    """In a child, before the program: another user, for good."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    python = Path(sys.base_prefix).resolve()
    assert libc.unshare(_NEW_MOUNTS) == 0
    assert libc.mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE), None) == 0
    closed = [path for path in python.parents if not path.stat().st_mode & 0o001]
    if closed:
        fd = os.open(python, os.O_PATH)
        assert libc.mount(b"tmpfs", os.fsencode(closed[-1]), b"tmpfs", ctypes.c_ulong(0), b"mode=755") == 0
        python.mkdir(parents=True)
        assert (
            libc.mount(f"/proc/self/fd/{fd}".encode(), os.fsencode(python), None, ctypes.c_ulong(_BIND), None)
            == 0
        )
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    os.umask(0o022)


async def contract(only: str | None) -> None:
    for result in await run_contract(on_bubblewrap, only):
        sys.stdout.write(json.dumps(asdict(result)) + "\n")


def main() -> None:
    """Run the contract, or those of its cases that are named in part."""
    anyio.run(contract, sys.argv[1] if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
