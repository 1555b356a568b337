"""Limits of a whole box by control groups, where this user may make some; else what each process may have."""

import math
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from outlast.sandbox import Limits

_PERIOD_US: Final = 100_000
_MOST_PROCESSES: Final = 4096
_COUNTS_BY_NAMESPACE: Final = (5, 14)
_WAY_OUT: Final = (
    "Run the worker as a service that is handed a group: "
    "systemd-run --user -p Delegate=yes -p DelegateSubgroup=worker outlast work …"
)


@dataclass(frozen=True, slots=True)
class Caps:
    """How the limits of a box are held."""

    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Groups to make, and what to write into their files."""
    each: Mapping[str, int] = field(default_factory=dict[str, int])
    """What the supervisor inside is to set for each process."""


class Groups:
    """The control groups that this process may make others in."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> None:
        self._root = root
        self._own = _parse(own)

    def caps(self, name: str, limits: Limits) -> Caps:
        """How `limits` are held for a box of this name."""
        wanted = _wanted(limits)
        if not wanted:
            return Caps(each=_backstop())
        v2 = self._v2(set(wanted))
        if v2 is not None:
            values = {file: value for one in wanted.values() for file, value in _v2_values(one).items()}
            return Caps({str(v2 / f"outlast-{name}"): values}, {} if "pids" in wanted else _backstop())
        groups: dict[str, Mapping[str, str]] = {}
        each: dict[str, int] = {} if "pids" in wanted else {**_backstop()}
        for controller, limit in wanted.items():
            parent = self._v1(controller)
            if parent is None:
                each |= {name: value for name, value in limit.items() if name != "cpu_us"}
            else:
                groups[str(parent / f"outlast-{name}")] = _v1_values(limit)
        return Caps(groups, each)

    def warning(self) -> str:
        """What cannot be limited here for a box as a whole, and what to do about it; empty: nothing."""
        all_of_them = Limits(memory_bytes=1, processes=1, cpus=1)
        lacking = sorted(self.caps("check", all_of_them).each)
        if not lacking:
            return ""
        names = ", ".join(name.removesuffix("_bytes") for name in lacking)
        what = f"{names}: limited for each process of a sandbox, not for all of them together"
        return f"{what}, since no control group is ours. {_WAY_OUT}"

    def leftovers(self, name: str) -> list[Path]:
        """Groups that a box of this name may have left."""
        found = [self._v1(one) for one in ("memory", "pids", "cpu")]
        if "" in self._own:
            own = self._root / self._own[""].lstrip("/")
            found += [own, own.parent]
        return [path for one in found if one is not None and (path := one / f"outlast-{name}").is_dir()]

    def _v2(self, controllers: set[str]) -> Path | None:
        """A group of the unified hierarchy in which groups with all of these controllers can be made: ours, or above.

        A group with processes of its own can hand out no controllers: a service that is handed a group runs below it.
        """
        path = self._own.get("")
        if path is None:
            return None
        own = self._root / path.lstrip("/")
        return next((group for group in (own, own.parent) if _hands_out(group, controllers)), None)

    def _v1(self, controller: str) -> Path | None:
        path = self._own.get(controller)
        if path is None:
            return None
        group = self._root / controller / path.lstrip("/")
        return group if group.is_dir() and os.access(group, os.W_OK) else None


def _backstop() -> Mapping[str, int]:
    """Where nobody says how many processes a box may have: so many that a machine bears them.

    Older kernels count those of a user, wherever they are: there it is left out.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    return {"processes": _MOST_PROCESSES} if version >= _COUNTS_BY_NAMESPACE else {}


def _hands_out(group: Path, controllers: set[str]) -> bool:
    """Groups below `group` have, or now have, these controllers."""
    try:
        if not (os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)):
            return False
        if controllers <= set((group / "cgroup.subtree_control").read_text().split()):
            return True
        given = set((group / "cgroup.controllers").read_text().split())
        if not controllers <= given or (group / "cgroup.procs").read_text().strip():
            return False
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))
    except OSError:
        return False
    return True


def _parse(own: Path) -> dict[str, str]:
    """Controller -> path of our group; the unified hierarchy as the empty name."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _wanted(limits: Limits) -> dict[str, dict[str, int]]:
    """Controller -> what the supervisor would set for each process in its stead."""
    wanted: dict[str, dict[str, int]] = {}
    if limits.memory_bytes is not None:
        wanted["memory"] = {"memory_bytes": limits.memory_bytes}
    if limits.processes is not None:
        wanted["pids"] = {"processes": limits.processes}
    if limits.cpus is not None:
        wanted["cpu"] = {"cpus": math.ceil(limits.cpus), "cpu_us": int(limits.cpus * _PERIOD_US)}
    return wanted


def _v2_values(limit: Mapping[str, int]) -> dict[str, str]:
    match limit:
        case {"memory_bytes": most}:
            return {"memory.max": str(most), "memory.oom.group": "0", "memory.swap.max": "0"}
        case {"processes": most}:
            return {"pids.max": str(most)}
        case _:
            return {"cpu.max": f"{limit['cpu_us']} {_PERIOD_US}"}


def _v1_values(limit: Mapping[str, int]) -> dict[str, str]:
    match limit:
        case {"memory_bytes": most}:
            # The second is of memory and swap together, and may not be below the first.
            return {"memory.limit_in_bytes": str(most), "memory.memsw.limit_in_bytes": str(most)}
        case {"processes": most}:
            return {"pids.max": str(most)}
        case _:
            return {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(limit["cpu_us"])}
