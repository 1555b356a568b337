"""The filter of system calls: its program is run by a machine of ours, as the kernel would."""

import re
import struct
from pathlib import Path

import pytest

from outlast.workspaces.sandbox.bubblewrap.seccomp import AUDIT_ARCH, REFUSED, program, supports

ALLOW, EPERM, ENOSYS, EAFNOSUPPORT = "allow", 1, 38, 97
NAMES = ("read", "clone", "clone3", "ioctl", "socket", "execve", "futex", "ptrace")
NUMBERS = {
    "x86_64": dict(zip(NAMES, (0, 56, 435, 16, 41, 59, 202, 101), strict=True)),
    "aarch64": dict(zip(NAMES, (63, 220, 435, 29, 198, 221, 98, 117), strict=True)),
}
HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}


def judged(machine: str, number: int, *args: int, arch: int | None = None) -> str | int:
    """What the filter says to a call: `allow`, or the error."""
    data = struct.pack("=IIQ6Q", number, arch or AUDIT_ARCH[machine], 0, *args, *[0] * (6 - len(args)))
    code = program(machine)
    steps = [struct.unpack("=HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    at, held = 0, 0
    while True:
        what, yes, no, value = steps[at]
        at += 1
        match what:
            case 0x20:
                (held,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += yes if held == value else no
            case 0x35:
                at += yes if held >= value else no
            case 0x45:
                at += yes if held & value else no
            case 0x06:
                return ALLOW if value == 0x7FFF0000 else value & 0xFFFF
            case _:
                raise AssertionError(f"{what:#x} is nothing that the filter needs")


@pytest.fixture(params=sorted(NUMBERS))
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


def test_what_programs_need_is_allowed(machine: str) -> None:
    numbers = NUMBERS[machine]
    for name in ("read", "execve", "futex", "ptrace"):
        assert judged(machine, numbers[name]) == ALLOW
    assert judged(machine, numbers["clone"], 0x003D0F00) == ALLOW  # a thread
    assert judged(machine, numbers["ioctl"], 0, 0x5401) == ALLOW
    for family in (1, 2, 10, 16):
        assert judged(machine, numbers["socket"], family) == ALLOW


def test_what_has_led_out_is_refused(machine: str) -> None:
    column = 0 if machine == "x86_64" else 1
    for name, listed in REFUSED.items():
        if listed[column] >= 0:
            assert judged(machine, listed[column]) == EPERM, name
    numbers = NUMBERS[machine]
    for flag in (0x10000000, 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000, 0x02000000, 0x80):
        assert judged(machine, numbers["clone"], flag | 17) == EPERM
    assert judged(machine, numbers["clone3"]) == ENOSYS
    for family in (15, 17, 38, 40, 44):
        assert judged(machine, numbers["socket"], family) == EAFNOSUPPORT


def test_arguments_are_judged_by_the_half_that_the_kernel_reads(machine: str) -> None:
    for request in (0x5412, 0x541C):
        assert judged(machine, NUMBERS[machine]["ioctl"], 0, request) == EPERM
        assert judged(machine, NUMBERS[machine]["ioctl"], 0, request | 0xDEAD00000000) == EPERM


def test_calls_of_other_machines_do_not_exist(machine: str) -> None:
    for arch in (0x40000003, 0x40000028, 0xC00000F3):
        assert judged(machine, 0, arch=arch) == ENOSYS
    if machine == "x86_64":
        assert judged(machine, 0x40000000 | 39) == ENOSYS


def test_every_jump_stays_within_the_program(machine: str) -> None:
    code = program(machine)
    assert len(code) % 8 == 0
    assert len(code) // 8 < 4096
    for at in range(0, len(code), 8):
        what, yes, no, _ = struct.unpack("=HBBI", code[at : at + 8])
        assert what & 7 == 6 or at // 8 + 1 + max(yes, no) < len(code) // 8


def test_the_numbers_are_those_of_the_kernel(machine: str) -> None:
    found = [Path(path) for path in HEADERS[machine] if Path(path).exists()]
    if not found:
        pytest.skip("the headers of this kernel are of another machine, or not installed")
    text = found[0].read_text()
    kernel = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    for name, listed in REFUSED.items():
        number = listed[0 if machine == "x86_64" else 1]
        if number >= 0 and name in kernel:
            assert kernel[name] == str(number), name
    assert len(set(kernel) & set(REFUSED)) > 35


def test_machines_without_a_filter_are_known() -> None:
    assert supports("x86_64")
    assert not supports("riscv64")
