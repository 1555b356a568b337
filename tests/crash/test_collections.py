"""kill -9 in the midst of a collection, and workers beside it: what any log leads to stays."""

import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from outlast.ids import blob_hash
from outlast.opening import open_world
from outlast.workspaces.drive import Drive, open_store
from tests.stored import stored

pytestmark = pytest.mark.crash

LEFT = 4_000
"""Packs that no log leads to."""
KILLS = 3


async def test_a_killed_collection_takes_nothing_that_is_needed_and_the_next_ends_it(tmp_path: Path) -> None:
    store, url = tmp_path / "store", f"sqlite:{tmp_path}/world.db"
    async with open_world(url) as world:
        versions = [{f"f{number}.txt": f"text {number}"} for number in range(20)]
        roots = await stored(world, "s-1", store, *versions)
    for number in range(LEFT):
        name = blob_hash("default", b"%d" % number).encode().hex()
        path = store / b"default".hex() / "packs" / name[-2:] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    for path in store.rglob("packs/*/*"):
        os.utime(path, (0, 0))
    command = [sys.executable, "-m", "outlast.cli", "gc", "--world", url]
    kills = sum(_killed(command, store) for _ in range(KILLS))
    assert kills, "it was through before it could be killed"
    for last in (False, True):
        drive = Drive(open_store(str(store)), "default")
        for at, root in enumerate(roots):
            assert await drive.read(root, f"f{at}.txt") == f"text {at}".encode()
        if not last:
            assert _count(store) > len(roots)
            await anyio.run_process(command)
            assert _count(store) == len(roots)


def _killed(command: list[str], store: Path) -> bool:
    """Kill it when its first pack is gone."""
    before = _count(store)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while process.poll() is None and _count(store) == before:
            time.sleep(0.001)  # not for anything: it is looked at all the time
        process.kill()
    return process.returncode < 0


def _count(store: Path) -> int:
    return sum(len(os.listdir(one)) for one in store.glob("*/packs/*"))  # noqa: PTH208 - quick
