"""kill -9 in the midst of a checkpoint, and of bringing files back: the next process ends right."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
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


_AS_NOBODY = """
import os, sys
from pathlib import Path
import anyio
import anyio._backends._asyncio
from outlast.drive import EMPTY_ROOT
from outlast.workspaces.drive import Drive, Folder
from tests.trees import MemoryPacks, look

async def main(top):
    work = top / "work"
    (work / "shut" / "inner").mkdir(parents=True)
    for path, mode in (("shut/file", 0o000), ("shut/inner/file", 0o200), ("file", 0o444)):
        (work / path).write_bytes(path.encode())
        (work / path).chmod(mode)
    (work / "shut" / "inner").chmod(0o000)
    (work / "shut").chmod(0o500)
    packs = MemoryPacks()
    drive = Drive(packs, "default")
    capture = await Folder(drive, work).checkpoint(EMPTY_ROOT)
    root = packs.land(drive, capture)
    assert not capture.left_out, capture.left_out
    assert [entry.mode async for entry in drive.entries(root)] == [0o444, 0o500, 0o000, 0o000, 0o200]
    assert (work / "shut" / "inner").stat().st_mode & 0o777 == 0o000  # given back
    assert await drive.read(root, "shut/inner/file") == b"shut/inner/file"
    other = Folder(drive, top / "other")
    await other.restore(root)
    assert (await other.checkpoint(root)).root == root
    (work / "shut").chmod(0o700)
    (work / "shut" / "file").unlink()
    (work / "shut").chmod(0o000)
    await Folder(drive, work).restore(root)
    assert (await Folder(drive, work).checkpoint(root)).root == root
    await other.restore(EMPTY_ROOT)
    assert not look(top / "other")

if os.geteuid() == 0:  # once all is imported: the interpreter itself may be out of nobody's reach
    os.chown(sys.argv[1], 65534, 65534)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
anyio.run(main, Path(sys.argv[1]))
"""


def test_what_its_owner_may_not_read_is_kept_and_stays_shut() -> None:
    """As a user that is not root, whom no mode would keep out."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-c", _AS_NOBODY, scratch], check=True)
        for path in sorted(Path(scratch).rglob("*")):
            if path.is_dir():
                path.chmod(0o700)


_IN_A_SMALL_ROOM = """
import resource, signal, sys
from pathlib import Path
import anyio
from outlast.errors import WorkspaceError
from tests.crash.drives import Place

async def main(top, what):
    place = Place(top)
    drive = place.drive()
    folder = place.folder(drive)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        if what == "keep":
            await folder.checkpoint(place.roots()[-1])
        else:
            await folder.restore(place.roots()[-1])
    except WorkspaceError as error:
        print(error)

anyio.run(main, Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("what", ["keep", "restore"])
async def test_where_no_room_is_left_it_is_said_and_nothing_is_lost(tmp_path: Path, what: str) -> None:
    place = Place(tmp_path)
    place.work.mkdir()
    (place.work / "file").write_bytes(os.urandom(50_000))
    if what == "restore":
        place.commit((await Folder(place.drive(), place.work).checkpoint("")).root)
        (place.work / "file").write_bytes(b"small")
    command = [sys.executable, "-c", _IN_A_SMALL_ROOM, str(tmp_path), what]
    said = (await anyio.run_process(command)).stdout.decode()
    assert "File too large" in said
    assert "nothing that was recorded is lost" in said.lower()
    if what == "keep":
        place.commit((await place.folder(place.drive()).checkpoint("")).root)
    else:
        await place.folder(place.drive()).restore(place.roots()[-1])
    assert await _same(place, place.roots()[-1], tmp_path / "there")
