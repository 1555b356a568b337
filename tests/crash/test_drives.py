"""kill -9 in the midst of a checkpoint, and of bringing files back: the next process ends right."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.workspaces.drive import Drive, Folder
from tests.conftest import SEED_VARIABLE
from tests.crash.drives import Place, change
from tests.trees import look

pytestmark = pytest.mark.crash

KILLS = 5


def _until_killed(what: str, top: Path, rnd: random.Random) -> None:
    """One process, killed at any moment after its first line."""
    command = [sys.executable, "-m", "tests.crash.drives", what, str(top), str(rnd.randrange(1 << 30))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        time.sleep(rnd.random() * 0.15)  # not for anything: where it strikes is drawn
        process.kill()


@pytest.fixture
def rnd() -> random.Random:
    return random.Random(os.environ[SEED_VARIABLE])


async def _same(place: Place, root: str, there: Path) -> bool:
    """Whether the store has all of this tree, and the directory is it."""
    await Folder(Drive(place.store, "default"), there).restore(root)
    same = look(there) == look(place.work)
    shutil.rmtree(there)
    return same


async def test_a_killed_checkpoint_loses_nothing_and_leads_nobody_astray(
    tmp_path: Path, rnd: random.Random
) -> None:
    place = Place(tmp_path)
    change(place.work, rnd)
    for _ in range(KILLS):
        _until_killed("keep", tmp_path, rnd)
        roots = place.roots()
        capture = await place.folder(place.drive()).checkpoint(
            roots[-1]
        )  # by the cache that the dead one left
        place.commit(capture.root)
        assert await _same(place, capture.root, tmp_path / "there")
        fresh = await Folder(place.drive(), place.work).checkpoint(capture.root)
        assert (fresh.root, fresh.changed) == (capture.root, [])
    for root in place.roots():  # no commit leads to a pack that is not there
        await Folder(Drive(place.store, "default"), tmp_path / "there").restore(root)


async def test_a_killed_restore_ends_right_when_it_is_repeated(tmp_path: Path, rnd: random.Random) -> None:
    place = Place(tmp_path)
    root = place.roots()[-1]
    for _ in range(4):
        change(place.work, rnd)
        root = (await Folder(place.drive(), place.work).checkpoint(root)).root
        place.commit(root)
    for _ in range(KILLS):
        _until_killed("restore", tmp_path, rnd)
        root = rnd.choice(place.roots())
        await place.folder(place.drive()).restore(root)
        assert await _same(place, root, tmp_path / "there")
        capture = await place.folder(place.drive()).checkpoint(root)
        assert (capture.root, capture.changed) == (root, [])
