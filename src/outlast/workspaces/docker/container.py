"""What a container is asked to be. Pure: a `Spec` becomes the body of `ContainerCreate`.

Restricted from the start, whatever image it is: a user that is not root, no capability, no way to gain one, a read-only
root, no network but its own loopback, bounded processes. What a box may write to is volumes without a name and a
tmpfs, all of which go with the container.
"""

import io
import re
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from outlast.ids import derived_id, digest
from outlast.sandbox import Spec

IMAGE: Final = "python:3.13"
"""Debian with Python, git, bash and a compiler."""
STATE: Final = "/outlast"
"""Where the supervisor inside keeps what jobs wrote; no image has such a directory."""
BOX: Final = "outlast.box"
"""The label that says of which `Spec.name` a container is the box."""
WISH: Final = "outlast.wish"
"""The label that says what of a `Spec` a container cannot be made to differ in."""
USER: Final = 1000
_PROCESSES: Final = 4096
_TMP: Final = "rw,exec,nosuid,nodev,mode=1777,size=1g"
"""Said whole: a daemon adds `noexec` where nothing is said, and takes half of the memory."""
_OF_IMAGE: Final = frozenset(
    {"PATH", "LANG", "LC_ALL", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME"}
)
_PLAIN: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,80}")


def container_name(name: str) -> str:
    """The container of a box: the same for the same `Spec.name`, and for no other."""
    return f"outlast-{name}" if _PLAIN.fullmatch(name) else derived_id("outlast-box", name.encode())


def create_body(spec: Spec, image: str, user: tuple[int, int], argv: Sequence[str]) -> dict[str, Any]:
    """The body that creates the container of a box, in which `argv` is the first program.

    Nothing of the worker's own environment goes in, and nothing of `spec.env`, which everybody could read there who
    may look at containers: the supervisor is told it, for its jobs.
    """
    return {
        "Image": image,
        "Entrypoint": list(argv),
        "Cmd": [],
        "User": f"{user[0]}:{user[1]}",
        "WorkingDir": spec.cwd,
        "Env": [],
        "Labels": {**spec.labels, BOX: spec.name, WISH: wish_of(spec, image, user)},
        "OpenStdin": False,
        "Tty": False,
        "NetworkDisabled": True,
        "HostConfig": _host(spec),
    }


def wish_of(spec: Spec, image: str, user: tuple[int, int]) -> str:
    """What stands for all that a container is made with and that cannot be changed when it stands."""
    mounts = sorted((str(mount.source), mount.target, mount.writable) for mount in spec.mounts)
    limits = (spec.limits.memory_bytes, spec.limits.processes, spec.limits.cpus)
    return digest(repr((image, spec.cwd, user, mounts, limits, volumes_of(spec))).encode())


def env_of(inspected: Mapping[str, Any]) -> dict[str, str]:
    """The environment that its image gives a container."""
    pairs = (str(pair).partition("=") for pair in inspected["Config"].get("Env") or ())
    return {name: value for name, _, value in pairs if name in _OF_IMAGE}


def _host(spec: Spec) -> dict[str, Any]:
    limits = spec.limits
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": limits.processes or _PROCESSES,
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": True,
        "Tmpfs": {"/tmp": _TMP},  # noqa: S108 - the one inside
        "Mounts": _mounts(spec),
    }
    if limits.memory_bytes is not None:
        # As much again of swap would make the limit twice what was asked.
        host |= {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    if limits.cpus is not None:
        host["NanoCpus"] = int(limits.cpus * 1e9)
    return host


def _mounts(spec: Spec) -> list[dict[str, Any]]:
    bound = [
        {"Type": "bind", "Source": str(mount.source), "Target": mount.target, "ReadOnly": not mount.writable}
        for mount in spec.mounts
    ]
    return [*({"Type": "volume", "Target": target} for target in volumes_of(spec)), *bound]


def volumes_of(spec: Spec) -> Sequence[str]:
    """The directories that are volumes of its own: its state, and `cwd` and HOME where nothing is mounted there."""
    wanted = dict.fromkeys([spec.cwd, spec.env.get("HOME") or spec.cwd])
    given = [mount.target for mount in spec.mounts]
    return [STATE, *(one for one in wanted if not any(_holds(path, one) for path in given))]


def _holds(above: str, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(above)


def owned_by(user: tuple[int, int]) -> bytes:
    """A tar archive that, unpacked in a directory, makes it that user's. A volume's own is root's."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(".")
        entry.type, entry.mode, (entry.uid, entry.gid) = tarfile.DIRTYPE, 0o755, user
        archive.addfile(entry)
    return packed.getvalue()


def filters(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """Those of `ContainerList` that find boxes with these labels."""
    return {"label": [BOX, *(f"{name}={value}" for name, value in labels.items())]}
