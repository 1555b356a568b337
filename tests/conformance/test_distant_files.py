"""The files of boxes that share no directory with the worker: laid out and captured over the supervisor inside."""

import os
from pathlib import Path

import pytest

from outlast.errors import WorkspaceError
from outlast.sandbox import Box, JobAsk
from outlast.workspaces.distant import DistantFiles, DistantTree
from outlast.workspaces.drive import Folder
from outlast.workspaces.drive.remoting import RemoteFolder
from tests.sandboxes.on_docker import on_docker_stand_in
from tests.sandboxes.on_hosted import on_unix_local
from tests.sandboxes.on_kubernetes import on_kubernetes_stand_in
from tests.trees import look
from tests.unit.drive_desk import Desk

GROUNDS = {"docker": on_docker_stand_in, "kubernetes": on_kubernetes_stand_in, "unix_local": on_unix_local}
pytestmark = pytest.mark.timeout(120)


def tree_of(box: Box, directory: str) -> DistantTree:
    return DistantFiles(box, [directory]).tree(directory)


def _fill(at: Path) -> None:
    (at / "src/deep").mkdir(parents=True)
    (at / "empty").mkdir(mode=0o700)
    (at / "src/big").write_bytes(os.urandom(2_500_000))
    (at / "src/deep/run.sh").write_text("#!/bin/sh\necho hello\n")
    (at / "src/deep/run.sh").chmod(0o755)
    (at / "a\udcff b\n").write_bytes(b"a name that is no text")
    (at / "link").symlink_to("src/deep/run.sh")
    (at / "nowhere").symlink_to("../../etc/passwd")
    (at / "none").touch()
    os.utime(at / "none", ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param("docker", marks=pytest.mark.crash),
        pytest.param("kubernetes", marks=pytest.mark.crash),
        pytest.param("unix_local", marks=pytest.mark.full),
    ],
)
async def test_files_travel_to_a_box_and_back_as_they_are(provider: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    _fill(desk.at)
    await desk.keep()
    root = desk.root
    async with GROUNDS[provider]() as ground, ground.provider().attach(ground.spec, 1) as box:
        await box.beat(110)
        folder = RemoteFolder(desk.drive, tree_of(box, ground.spec.cwd))
        await folder.restore(root)
        capture = await folder.checkpoint(root)
        assert (capture.root, dict(capture.packs)) == (root, {})
        line = "src/deep/run.sh > said; rm -r empty; ln -sfn said link; mkdir new; printf x >> src/big"
        job = await box.begin(JobAsk("change", ["sh", "-c", line]))
        assert await job.wait() == 0
        capture = await folder.checkpoint(root)
        assert sorted(capture.changed) == ["empty", "link", "new", "said", "src/big"]
        after = desk.packs.land(desk.drive, capture)
    there = tmp_path / "there"
    there.mkdir()
    await Folder(desk.drive, there).restore(after)
    assert (there / "said").read_text() == "hello\n"
    assert (there / "src/big").read_bytes() == (desk.at / "src/big").read_bytes() + b"x"
    assert not (there / "empty").exists()
    kept = {path: found for path, found in look(desk.at).items() if path.startswith(b"src/deep/")}
    assert kept.items() <= look(there).items()


@pytest.mark.crash
async def test_what_is_not_there_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async with on_docker_stand_in() as ground, ground.provider().attach(ground.spec, 1) as box:
        with pytest.raises(WorkspaceError, match="No such file or directory /nowhere"):
            await tree_of(box, "/nowhere").scan()
