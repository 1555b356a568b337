"""The machine that figures belong to."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import apsw


def facts(directory: Path) -> dict[str, str]:
    """What a reader must know of this machine: its figures mean nothing on another."""
    load = " ".join(f"{load:.2f}" for load in os.getloadavg())
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": f"{os.cpu_count()} × {_processor()}",
        "memory": _memory(),
        "disk": f"{_filesystem(directory)} below {directory}",
        "python": sys.version.split()[0],
        "outlast": version("outlast"),
        "SQLite": f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})",
        "load": f"{load} before; more than 1 spoils every figure",
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return f"{int(line.split()[1]) / 2**20:.1f} GiB"
    return "unknown"


def _filesystem(directory: Path) -> str:
    best, kind = "", "unknown file system"
    for line in _lines("/proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        mount = left.split()[4]
        if len(mount) >= len(best) and directory.is_relative_to(mount):
            best, kind = mount, right.split()[0]
    return kind
