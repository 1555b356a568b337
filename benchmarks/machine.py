"""The machine that figures belong to."""

import asyncio
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import apsw

from outlast.worlds.postgres.database import driver


def facts(directory: Path, server: str = "") -> dict[str, str]:
    """What a reader must know of this machine, and of the `server` if there is one: figures mean nothing elsewhere."""
    load = " ".join(f"{load:.2f}" for load in os.getloadavg())
    store = (
        {"Postgres": asyncio.run(_server(server))}
        if server
        else {"SQLite": f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"}
    )
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": f"{os.cpu_count()} × {_processor()}",
        "memory": _memory(),
        "disk": f"{_filesystem(directory)} below {directory}",
        "python": sys.version.split()[0],
        "outlast": version("outlast"),
        **store,
        "load": f"{load} before; more than 1 spoils every figure",
    }


async def _server(url: str) -> str:
    """Version, driver, and the settings that make a commit durable."""
    connection = await driver.connect(url)
    try:
        said = [
            f"{name} {await connection.fetchval(f'show {name}')}" for name in ("fsync", "synchronous_commit")
        ]
        number = await connection.fetchval("show server_version")
    finally:
        await connection.close()
    return f"{number} (asyncpg {version('asyncpg')}; {', '.join(said)})"


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
