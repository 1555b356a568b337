"""Files of a box, from outside."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from outlast.errors import BoxError, FileMissing
from outlast.sandbox import Mount
from outlast.testing.sandbox_contract.blocks import held, raises, ran, same
from outlast.testing.sandbox_contract.case import Case, Ground, promise


@promise()
async def a_file_is_written_whole_and_read_back(ground: Ground) -> None:
    async with held(ground) as box:
        for data in (b"", b"small\x00\xff", b"0123456789abcdef" * 70_000):
            await box.write("deep/er/file", data, mode=0o640)
            same(await box.read(f"{ground.spec.cwd}/deep/er/file"), data)
        same(await ran(box, "stat -c %a deep/er/file; ls -A deep/er"), (0, "640\nfile\n"))
        await box.write("deep/er/file", b"#!/bin/sh\necho ran\n", mode=0o755)
        same(await ran(box, "./deep/er/file"), (0, "ran\n"))


@promise()
async def what_is_not_there_is_said(ground: Ground) -> None:
    async with held(ground) as box:
        same(await box.stat("none"), None)
        for ask in (box.read, box.remove, box.list):
            with raises(FileMissing):
                await ask("none")
        await ran(box, "mkdir directory; mkfifo pipe")
        for path in ("directory", "pipe"):
            with raises(BoxError):
                await box.read(path)
        with raises(BoxError):
            await box.write("directory", b"")


@promise()
async def a_directory_is_listed_by_name(ground: Ground) -> None:
    async with held(ground) as box:
        await ran(box, "mkdir d; cd d; printf abc > file; ln -s nowhere link; mkdir sub; chmod 750 sub")
        found = await box.list("d")
        same([(one.path, one.kind, one.size, one.target) for one in found], [
            ("d/file", "file", 3, ""),
            ("d/link", "link", 0, "nowhere"),
            ("d/sub", "dir", 0, ""),
        ])  # fmt: skip
        same(found[2].mode, 0o750)
        same(await box.stat("d/link"), found[1])
        await ran(box, "mkdir many; cd many; touch $(seq 1 5000)")
        names = [one.path.removeprefix("many/") for one in await box.list("many")]
        same(names, sorted(map(str, range(1, 5001))))


@promise()
async def a_directory_is_removed_with_all_that_is_in_it(ground: Ground) -> None:
    async with held(ground) as box:
        await ran(box, "mkdir -p d/a/b kept; touch d/a/b/c kept/file; ln -s ../kept d/a/out; ln -s kept gone")
        await box.remove("d")
        await box.remove("gone")
        same(await ran(box, "find . | sort"), (0, ".\n./kept\n./kept/file\n"))


@promise("mounts")
async def a_mount_shows_what_it_is_and_no_more(ground: Ground) -> None:
    with TemporaryDirectory() as directory:
        open_, closed = _directories(Path(directory))
        mounts = (Mount(open_, "/data/open", writable=True), Mount(closed, "/data/closed"))
        async with held(ground, spec=replace(ground.spec, mounts=(*ground.spec.mounts, *mounts))) as box:
            same(await ran(box, "cat /data/open/file /data/closed/file"), (0, "from outside\n" * 2))
            same((await ran(box, "echo new > /data/open/new"))[0], 0)
            assert (await ran(box, "echo new > /data/closed/new"))[0] != 0
            assert (await ran(box, f"ls {directory}"))[0] != 0
        same(_names(open_), ["file", "new"])
        same(_names(closed), ["file"])


def _directories(within: Path) -> tuple[Path, Path]:
    """Two that anybody may write to, as far as they know."""
    within.chmod(0o755)
    for name in ("open", "closed"):
        path = within / name
        path.mkdir()
        path.chmod(0o777)
        (path / "file").write_text("from outside\n")
    return within / "open", within / "closed"


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


CASES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Case))
