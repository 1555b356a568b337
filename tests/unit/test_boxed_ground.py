"""What a session's sandbox has on the worker's machine: given to its user, and removed, however deep it is made."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio.lowlevel

from outlast.beneath import remove_tree
from outlast.sandbox import SandboxProvider
from outlast.workspaces.boxed.ground import SANDBOXES, Ground, way_of
from outlast.workspaces.boxed.kind import SandboxKind

ME = (os.getuid(), os.getgid())


def deep(top: Path, levels: int = 1_200) -> None:
    """Directories in one another, as whatever runs in a box may make them."""
    top.mkdir(parents=True)
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_what_is_deeper_than_anything_of_ours_is_passed_over(tmp_path: Path) -> None:
    deep(tmp_path / "home")
    (tmp_path / "home/link").symlink_to("/")
    (tmp_path / "home/loop").symlink_to(".")
    try:
        Ground(tmp_path / "own", tmp_path / "home", (), ME).own(tmp_path / "home")
    finally:  # pytest does not come so deep
        remove_tree(tmp_path / "home")


async def test_a_home_that_was_closed_inside_is_opened_again(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "own", tmp_path / "home", (), None)
    for mode in (0o700, 0, 0o555):
        await ground.make(mounts=True)
        ground.home.chmod(mode)
    await ground.make(mounts=True)
    assert ground.home.stat().st_mode & 0o777 == 0o700


async def test_a_session_that_is_erased_leaves_neither_its_files_nor_the_key_of_its_way_out(
    tmp_path: Path,
) -> None:
    deep(tmp_path / SANDBOXES / "folder")
    way_of(tmp_path, "folder").mkdir(parents=True)
    (way_of(tmp_path, "folder") / "authority.pem").touch()
    way_of(tmp_path, "other").mkdir(parents=True)

    async def list_(_: Mapping[str, str]) -> Sequence[Any]:
        await anyio.lowlevel.checkpoint()
        return ()

    provider = cast("SandboxProvider", SimpleNamespace(list=list_))

    def find(_name: str, _data: Path) -> SandboxProvider:
        return provider

    await SandboxKind(find).forget({"kind": "sandbox"}, "folder", tmp_path)
    assert not (tmp_path / SANDBOXES / "folder").exists()
    assert not way_of(tmp_path, "folder").exists()
    assert way_of(tmp_path, "other").exists()
