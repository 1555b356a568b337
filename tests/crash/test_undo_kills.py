"""`outlast undo` killed at any moment: nothing is lost, and done again it ends right."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from outlast.cli.argv import SELF
from outlast.opening import open_world
from outlast.workspaces.drive import Folder
from outlast.workspaces.local import local
from outlast.world import World
from tests.kept import Kept

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]
FILES = 400
MOMENTS_S = (0.35, 0.5, 0.65, 0.8)


def files_of(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()
    }


def test_an_undo_that_was_killed_loses_nothing_and_ends_right_when_it_is_done_again(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    url = f"sqlite:{tmp_path / 'world.db'}"
    old = {f"src/{number}.txt": f"old {number}\n" for number in range(FILES)}
    new = {name: f"new {name}\n" for name in old}

    async def fill(world: World) -> None:
        kept = Kept(world, "s")
        await kept.open(dict(local(shop).reference()), str(shop))
        await kept.play(old)
        await kept.play(new)
        await Folder(kept.drive, shop).restore(kept.root)

    _within(url, fill)
    mine = shop / "mine.txt"
    mine.write_text("by hand\n")
    words = [*SELF, "undo", "s", "--turn", "2", "--yes", "--json", "--world", url]
    environ = {**os.environ, "OUTLAST_DATA_DIR": str(tmp_path / "data")}
    for moment_s in MOMENTS_S:
        with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL) as process:
            time.sleep(moment_s)
            os.kill(process.pid, signal.SIGKILL)
    done = json.loads(
        subprocess.run(words, env=environ, capture_output=True, check=True).stdout.splitlines()[-1]
    )
    assert files_of(shop) == old
    back = _first_kept(environ, url)
    subprocess.run(
        [*SELF, "undo", "s", "--at", str(back), "--yes", "--world", url],
        env=environ,
        capture_output=True,
        check=True,
    )
    assert files_of(shop) == {**new, "mine.txt": "by hand\n"}
    assert done["session"] == "s"


def _first_kept(environ: dict[str, str], url: str) -> int:
    """The commit in which the first of the undos kept what there was."""
    words = [*SELF, "log", "s", "--json", "--world", url]
    lines = subprocess.run(words, env=environ, capture_output=True, check=True).stdout.splitlines()
    entries: list[Any] = [json.loads(line) for line in lines]
    kept = [one["seq"] for one in entries if one["record"].get("why") == "undo"]
    return int(kept[0])


def _within(url: str, body: Callable[[World], Awaitable[None]]) -> None:
    async def within() -> None:
        async with open_world(url) as world:
            await body(world)

    anyio.run(within)
