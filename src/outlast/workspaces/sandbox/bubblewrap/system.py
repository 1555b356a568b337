"""What a box sees of the worker's machine, as steps for bubblewrap.

The programs of the machine read-only, a made-up /etc, memory for /tmp; nothing of anybody's home, no sockets, no
devices but the harmless ones, and what the `Spec` names.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from outlast.errors import BoxError
from outlast.sandbox import Mount, Spec
from outlast.workspaces.sandbox import inside
from outlast.workspaces.sandbox.bubblewrap import seccomp

Step: TypeAlias = Sequence[str | bytes]
"""An option of bubblewrap without its dashes, and its arguments.

Of `file`, `ro-bind-data` and `seccomp` the first is the content."""

STATE: Final = "/run/outlast"
"""Of the supervisor inside: its program, and what jobs wrote."""
_PROGRAM: Final = f"{STATE}/inside"
_SHM, _TMP, _VAR_TMP = "/dev/shm", "/tmp", "/var/tmp"  # noqa: S108 - the box's own
_ROOTS: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM: Final = ("/usr", "/nix/store", "/gnu/store")
_ETC: Final = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
)
"""Files and directories of /etc that hold no secret and that programs do not work without."""

_VEILED: Final = (
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/latency_stats",
)
"""Say something of the whole machine, and of keys that the worker's session holds."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much memory the file systems of a box may take, in bytes."""

    tmp: int = 1 << 30
    shm: int = 256 << 20
    state: int = 512 << 20
    """What jobs wrote, all together."""


def steps_for(spec: Spec, uid: int, gid: int, sizes: Sizes, *, seals: bool, filters: bool) -> list[Step]:
    """Everything that bubblewrap is to do before it starts the supervisor.

    Args:
        spec: what the box is to be.
        uid: whose processes it holds, inside and outside.
        gid: likewise.
        sizes: of its file systems.
        seals: this bubblewrap can forbid user namespaces inside.
        filters: there is a filter of system calls for this machine.

    Raises:
        BoxError: something that is to be mounted is not there.
    """
    steps: list[Step] = [[f"unshare-{name}"] for name in ("user", "pid", "ipc", "uts", "net", "cgroup-try")]
    steps += [["disable-userns"]] if seals else []
    steps += [
        ["uid", str(uid)],
        ["gid", str(gid)],
        ["hostname", "sandbox"],
        ["new-session"],
        ["die-with-parent"],
    ]
    steps += [["as-pid-1"], ["cap-drop", "ALL"], ["chdir", "/"]]
    steps += [["seccomp", seccomp.program()]] if filters else []
    steps += _system() + _etc(spec, uid, gid)
    steps += [
        ["proc", "/proc"],
        *(["ro-bind-data", b"", path] for path in _VEILED if Path(path).exists()),
        ["dev", "/dev"],
        *_memory(_SHM, sizes.shm, "1777"),
        ["remount-ro", "/dev"],
    ]
    steps += [
        *_memory(_TMP, sizes.tmp, "1777"),
        ["symlink", "../tmp", _VAR_TMP],
        ["symlink", "../run", "/var/run"],
    ]
    steps += [*_memory(STATE, sizes.state, "0700"), ["ro-bind", str(Path(inside.__file__).parent), _PROGRAM]]
    for path in sorted({spec.cwd, spec.env.get("HOME", spec.cwd)}):
        if not any(_holds(mount.target, path) for mount in spec.mounts):
            steps += _memory(path, sizes.tmp, "0755")
    for mount in sorted(spec.mounts, key=lambda one: len(PurePosixPath(one.target).parts)):
        steps.append(_mounted(spec, mount))
    return [*steps, ["remount-ro", "/"]]


def argv_inside(first_s: float) -> list[str]:
    """The first process of a box; `{fd}` is where its socket listens."""
    words = [*python(), f"{_PROGRAM}/__main__.py", "serve", "--fd", "{fd}", "--directory", f"{STATE}/kept"]
    return [*words, "--first-s", str(first_s)]


def python() -> list[str]:
    """The Python that runs the supervisor: ours, without a virtual environment around it."""
    real = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return [str(real), "-I", "-S"]


def _system() -> list[Step]:
    steps: list[Step] = [["ro-bind", path, path] for path in _SYSTEM if Path(path).is_dir()]
    for path in _ROOTS:
        if Path(path).is_symlink():
            steps.append(["symlink", str(Path(path).readlink()), path])
        elif Path(path).is_dir():
            steps.append(["ro-bind", path, path])
    prefix = str(Path(sys.base_prefix).resolve())
    if prefix != "/" and not any(_holds(path, prefix) for path in _SYSTEM):
        steps.append(["ro-bind", prefix, prefix])
    return steps


def _etc(spec: Spec, uid: int, gid: int) -> list[Step]:
    home = spec.env.get("HOME", spec.cwd)
    made = {
        "passwd": f"root:x:0:0:root:/root:/bin/sh\nagent:x:{uid}:{gid}:agent:{home}:{spec.shell}\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        "group": f"root:x:0:\nagent:x:{gid}:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "hostname": "sandbox\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "resolv.conf": "# There is no network here, and no names: what leads out says so by HTTP_PROXY.\n",
        "machine-id": "0" * 32 + "\n",
    }
    steps: list[Step] = []
    for name, text in made.items():
        steps += [["perms", "0644"], ["file", text.encode(), f"/etc/{name}"]]
    for name in _ETC:
        steps += _etc_one(Path("/etc") / name)
    return steps


def _etc_one(path: Path) -> list[Step]:
    if path.is_symlink() and path.name == "localtime":
        return [["symlink", str(path.readlink()), str(path)]]
    real = path.resolve()
    return [["ro-bind", str(real), str(path)]] if real.exists() and os.access(real, os.R_OK) else []


def _memory(path: str, size: int, mode: str) -> list[Step]:
    return [["perms", mode], ["size", str(size)], ["tmpfs", path]]


def _mounted(spec: Spec, mount: Mount) -> Step:
    if not mount.source.exists():
        raise BoxError(box=spec.name, reason=f"{mount.source}, which is to be mounted, is not there.")
    return ["bind" if mount.writable else "ro-bind", str(mount.source.resolve()), mount.target]


def _holds(above: str, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(above)


def overlapping(spec: Spec) -> Sequence[str]:
    """Targets that would lie over what makes the box one."""
    reserved = ("/proc", "/dev", "/etc", STATE)
    bad = [one.target for one in spec.mounts if any(_holds(path, one.target) for path in reserved)]
    return bad + [one.target for one in spec.mounts if not PurePosixPath(one.target).is_absolute()]
