"""What inquiries see of a workspace: what lies within it, and no more."""

import os
from pathlib import Path
from typing import cast

import anyio
import pytest

from outlast.adapter import Places, Processes
from outlast.clock import SystemClock
from outlast.engine.harness import SupervisedProcesses
from outlast.engine.keeper import Keeper
from outlast.engine.scene import PlaceScene, SiteScene, asked, noted
from outlast.errors import WorkspaceError
from outlast.inquiry import READ_LIMIT, Scene, Witness
from outlast.tool import Done, NotDone, Unsure, Verdict
from outlast.workspace import Site
from outlast.workspaces.local.files import HostFiles


class Directory:
    """As much of a site as a scene looks at."""

    def __init__(self, path: Path) -> None:
        self.cwd = str(path)
        self.files = HostFiles(path)


def place(path: Path) -> Scene:
    return PlaceScene(Places(path, path), cast("Processes", None))


def site(path: Path) -> Scene:
    return SiteScene(cast("Site", Directory(path)))


SCENES = pytest.mark.parametrize("of", [place, site], ids=["place", "site"])


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """A workspace with files of every kind, and a secret beside it."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("hush")
    (work / "file").write_text("text")
    (work / "inside").symlink_to("file")
    (work / "outside").symlink_to("../secret")
    (work / "nowhere").symlink_to("nothing")
    (work / "directory").mkdir()
    os.mkfifo(work / "pipe")
    with (work / "large").open("wb") as file:
        file.truncate(READ_LIMIT + 1)
    return work


@SCENES
async def test_a_file_of_the_workspace_is_read_by_either_path(of: type, at: Path) -> None:
    scene = of(at)
    for path in ("file", str(at / "file"), "inside", "directory/../file"):
        assert await scene.read(path) == b"text"
    for path in ("nothing", "nowhere", "directory/nothing", "nothing/below", "file/below"):
        assert await scene.read(path) is None


@SCENES
@pytest.mark.parametrize("path", ["outside", "../secret", "/etc/passwd", "directory", "pipe", "large"])
async def test_what_is_no_file_of_the_workspace_is_not_read(of: type, path: str, at: Path) -> None:
    with anyio.fail_after(5), pytest.raises(WorkspaceError):
        await of(at).read(path)


class Asked:
    """An inquiry that behaves as it is told."""

    files_only = True

    def __init__(self, does: object) -> None:
        self._does = does

    async def note(self, scene: Scene) -> Witness | None:
        return cast("Witness", await self._act())

    async def ask(self, scene: Scene, witness: Witness) -> Verdict:
        return cast("Verdict", await self._act())

    async def _act(self) -> object:
        if isinstance(self._does, BaseException):
            raise self._does
        if self._does == "hang":
            await anyio.sleep_forever()
        return self._does


@pytest.mark.parametrize(
    "does", ["hang", ValueError("no"), SystemExit(1), WorkspaceError(detail="no"), 7, None]
)
async def test_an_inquiry_that_fails_hangs_or_talks_nonsense_notes_nothing_and_is_unsure(
    does: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.engine.scene.NOTE_S", 0.05)
    monkeypatch.setattr("outlast.engine.scene.ASK_S", 0.05)
    assert await noted(Asked(does), place(tmp_path)) is None
    assert isinstance(await asked(Asked(does), place(tmp_path), {}), Unsure)


async def test_an_inquiry_s_own_word_is_taken(tmp_path: Path) -> None:
    assert await noted(Asked({"is": "it"}), place(tmp_path)) == {"is": "it"}
    for said in (Done("so"), NotDone(), Unsure("who knows")):
        assert await asked(Asked(said), place(tmp_path), {}) == said


@pytest.mark.crash
async def test_a_command_is_run_where_there_is_no_more_than_a_directory(
    at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_namespace() -> bool:
        return False

    monkeypatch.setenv("OUTLAST_SECRET", "hush")
    async with Keeper(lambda: 60.0, ttl_s=60.0, on_lost=lambda _: None, clock=SystemClock()) as keeper:
        processes = SupervisedProcesses(tmp_path / "locks", keeper, 60.0, no_namespace)
        scene = PlaceScene(Places(at, at), processes)
        ran = await scene.run(
            "pwd; echo $OUTLAST_SECRET.; echo no >&2; exit 3", cwd="directory", timeout_s=30
        )
        assert (ran.status, ran.stdout, ran.stderr) == (3, f"{at}/directory\n.\n", "no")
        assert not ran.timed_out
        began_s = anyio.current_time()
        ran = await scene.run("echo begun; sleep 60", timeout_s=1)
        assert (ran.status, ran.timed_out) == (124, True)
        assert anyio.current_time() - began_s < 30
