"""The filter of system calls that every process of a box runs under, as a program of classic BPF.

What is not listed is allowed, as with the default profiles of containers: namespaces keep a box in, and the filter
takes away what has no use in one and has led out of many. Refused calls fail with EPERM; those that programs fall back
from when they do not exist, with ENOSYS. Calls of another machine's numbering (32 bit on 64) do not exist.

The numbers are those of the kernel's tables (`arch/x86/entry/syscalls/syscall_64.tbl` and
`include/uapi/asm-generic/unistd.h`), the format that of `linux/filter.h` and `linux/seccomp.h`.
"""

import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGS = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_X32: Final = 0x40000000
_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME."""
_TERMINAL_WRITES: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: input into the terminal of others."""
_FAMILIES: Final = (0, 1, 2, 10, 16)
"""AF_UNSPEC, UNIX, INET, INET6, NETLINK; not VSOCK, ALG, PACKET …, which are not all the namespace's own."""

REFUSED: Final = {
    # name: (x86-64, aarch64); -1: not there
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_CLONE3: Final = 435
_IOCTL: Final = {"x86_64": 16, "aarch64": 29}
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction; `yes` and `no` are how many of the next to leave out."""

    code: int
    value: int
    yes: int = 0
    no: int = 0

    def packed(self) -> bytes:
        return struct.pack("=HBBI", self.code, self.yes, self.no, self.value)


def supports(machine: str = "") -> bool:
    """There is a filter for this machine (by default the one we run on)."""
    return (machine or platform.machine()) in AUDIT_ARCH


def program(machine: str = "") -> bytes:
    """The filter, as bubblewrap's `--seccomp` reads it.

    Args:
        machine: `x86_64`, `aarch64`; by default the one we run on.
    """
    machine = machine or platform.machine()
    column = 0 if machine == "x86_64" else 1
    refused = sorted(numbers[column] for numbers in REFUSED.values() if numbers[column] >= 0)
    steps = [
        _Step(_LOAD, _ARCH),
        _Step(_EQUAL, AUDIT_ARCH[machine], yes=1),
        _fail(_ENOSYS),
        _Step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [_Step(_AT_LEAST, _X32, no=1), _fail(_ENOSYS)]
    for number in refused:
        steps += [_Step(_EQUAL, number, no=1), _fail(_EPERM)]
    # Its flags are behind a pointer, where no filter sees them: libraries then use `clone`.
    steps += [_Step(_EQUAL, _CLONE3, no=1), _fail(_ENOSYS)]
    steps += _about(_CLONE[machine], 0, [_Step(_ANY_BIT, _NAMESPACES, no=1), _fail(_EPERM)])
    writes = [step for request in _TERMINAL_WRITES for step in (_Step(_EQUAL, request, no=1), _fail(_EPERM))]
    steps += _about(_IOCTL[machine], 1, writes)
    known = [step for family in _FAMILIES for step in (_Step(_EQUAL, family, no=1), _Step(_RETURN, _ALLOW))]
    steps += _about(_SOCKET[machine], 0, [*known, _fail(_EAFNOSUPPORT)])
    steps.append(_Step(_RETURN, _ALLOW))
    return b"".join(step.packed() for step in steps)


def _about(number: int, argument: int, judged: Sequence[_Step]) -> list[_Step]:
    """Judge the lower half of an argument of one call; what is not refused is allowed."""
    steps = [_Step(_LOAD, _ARGS + 8 * argument), *judged, _Step(_RETURN, _ALLOW)]
    return [_Step(_EQUAL, number, no=len(steps)), *steps]


def _fail(errno: int) -> _Step:
    return _Step(_RETURN, _ERRNO | errno)
