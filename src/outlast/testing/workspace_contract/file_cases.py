"""What is promised of files."""

from collections.abc import Awaitable
from typing import Final

from outlast.errors import FileMissing, PathRefused, WorkspaceError
from outlast.testing.workspace_contract.case import Case, Stand, promise

EVERY_BYTE: Final = bytes(range(256)) * 5


@promise()
async def what_is_written_is_read_back(stand: Stand) -> None:
    async with stand.site() as site:
        for path, data in (("a.bin", EVERY_BYTE), ("empty", b""), ("deep/er/naïve näme.txt", b"x\n")):
            await site.files.write(path, data)
            assert await site.files.read(path) == data, path
            assert await site.files.read(f"{site.cwd}/{path}") == data, path
        await site.files.write("a.bin", b"anew")
        assert await site.files.read("a.bin") == b"anew"


@promise()
async def a_large_file_is_written_whole(stand: Stand) -> None:
    data = EVERY_BYTE * 4_000
    async with stand.site() as site:
        await site.files.write("large", data)
        assert await site.files.read("large") == data


@promise()
async def a_file_keeps_its_mode_where_none_is_given(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("tool", b"#!/bin/sh\n", mode=0o755)
        await site.files.write("tool", b"#!/bin/sh\necho hi\n")
        found = await site.files.find("tool")
        assert found is not None
        assert found.mode == 0o755, oct(found.mode)
        assert await stand.said(site, "./tool") == "hi\n"


@promise()
async def find_says_what_is_at_a_path(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/file", b"12345", mode=0o640)
        await stand.said(site, "ln -s file d/link")
        file, link, directory = [await site.files.find(path) for path in ("d/file", "d/link", "d")]
        assert file is not None and link is not None and directory is not None  # noqa: PT018 - one fact
        assert (file.path, file.kind, file.mode, file.size) == ("d/file", "file", 0o640, 5)
        assert (link.path, link.kind, link.target) == ("d/link", "link", "file")
        assert (directory.path, directory.kind) == ("d", "dir")
        assert file.mtime_ns > 0
        for nothing in ("d/none", "none/none", "d/file/none"):
            assert await site.files.find(nothing) is None, nothing


@promise()
async def list_gives_what_is_directly_in_a_directory_by_name(stand: Stand) -> None:
    async with stand.site() as site:
        for path in ("d/b", "d/a", "d/sub/deep", "elsewhere"):
            await site.files.write(path, b"")
        entries = await site.files.list("d")
        assert [(entry.path, entry.kind) for entry in entries] == [
            ("d/a", "file"),
            ("d/b", "file"),
            ("d/sub", "dir"),
        ]
        assert "elsewhere" in [entry.path for entry in await site.files.list(site.cwd)]


@promise()
async def remove_takes_a_directory_with_all_that_is_in_it(stand: Stand) -> None:
    async with stand.site() as site:
        for path in ("d/one", "d/sub/two", "kept"):
            await site.files.write(path, b"")
        await site.files.remove("d")
        assert await site.files.find("d") is None
        assert await site.files.find("kept") is not None
        await site.files.remove("kept")
        assert await site.files.find("kept") is None


@promise()
async def remove_takes_a_link_and_leaves_what_it_leads_to(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/file", b"still here")
        await stand.said(site, "ln -s d to-directory; ln -s d/file to-file; ln -s nowhere to-nothing")
        for link in ("to-directory", "to-file", "to-nothing"):
            await site.files.remove(link)
            assert await site.files.find(link) is None, link
        assert await site.files.read("d/file") == b"still here"


@promise()
async def the_workspace_itself_is_neither_removed_nor_written(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/kept", b"kept")
        await stand.said(site, "ln -s . self; ln -s .. d/up")
        for path in ("", ".", "d/..", site.cwd, f"{site.cwd}/", "d/../d/.."):
            await _raises(WorkspaceError, site.files.remove(path))
            await _raises(WorkspaceError, site.files.write(path, b"x"))
        for path in ("self", "d/up"):
            await _raises(WorkspaceError, site.files.write(path, b"x"))
        assert await site.files.read("d/kept") == b"kept"
        await site.files.remove("self")
        await site.files.remove("d/up")
        assert [entry.path for entry in await site.files.list("")] == ["d"]
        assert await site.files.read("d/kept") == b"kept"


@promise()
async def a_file_that_is_not_there_is_missing(stand: Stand) -> None:
    async with stand.site() as site:
        for asked in (
            site.files.read("none"),
            site.files.read("none/none"),
            site.files.remove("none"),
            site.files.list("none"),
        ):
            await _raises(FileMissing, asked)


@promise()
async def a_directory_is_no_file_nor_a_file_a_directory(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/file", b"as it was")
        for asked in (
            site.files.read("d"),
            site.files.write("d", b""),
            site.files.write("d/file/below", b""),
            site.files.list("d/file"),
        ):
            await _raises(WorkspaceError, asked)
        assert await site.files.read("d/file") == b"as it was"
        assert [entry.path for entry in await site.files.list("d")] == ["d/file"]


@promise()
async def paths_that_lead_out_are_refused(stand: Stand) -> None:
    async with stand.site() as site:
        for path in ("../out", "/etc/passwd", "/", "..", "d/../../out", f"{site.cwd}/../out", f"{site.cwd}x"):
            for asked in (
                site.files.read(path),
                site.files.write(path, b"out"),
                site.files.find(path),
                site.files.list(path),
                site.files.remove(path),
            ):
                await _raises(PathRefused, asked)


@promise()
async def links_that_lead_out_are_refused(stand: Stand) -> None:
    async with stand.site() as site:
        await stand.said(
            site, "mkdir d; ln -s /etc/passwd file; ln -s / top; ln -s ../../etc d/up; ln -s top again"
        )
        for path in ("file", "top/etc/passwd", "d/up/passwd", "again/etc/passwd"):
            await _raises(PathRefused, site.files.read(path))
        for path in ("top/tmp/outlast-contract", "d/up/outlast-contract", "file"):
            await _raises(PathRefused, site.files.write(path, b"out"))
        for path in ("top", "d/up", "again/etc"):
            await _raises(PathRefused, site.files.list(path))
        await _raises(PathRefused, site.files.remove("top/etc/passwd"))
        found = await site.files.find("file")
        assert found is not None
        assert (found.kind, found.target) == ("link", "/etc/passwd")


@promise()
async def links_that_stay_within_are_followed(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/file", b"one")
        await stand.said(site, 'ln -s d to; ln -s file d/same; ln -s "$PWD/d" absolute; ln -s loop loop')
        assert await site.files.read("to/same") == b"one"
        assert await site.files.read("absolute/file") == b"one"
        await site.files.write("to/same", b"two")
        assert await site.files.read("d/file") == b"two"
        link = await site.files.find("d/same")
        assert link is not None
        assert link.kind == "link"
        names = [entry.path.rpartition("/")[2] for entry in await site.files.list("to")]
        assert names == ["file", "same"]
        await _raises(WorkspaceError, site.files.read("loop"))


async def _raises(kind: type[WorkspaceError], asked: Awaitable[object]) -> None:
    try:
        got = await asked
    except kind as error:
        assert str(error), "an error says something"  # noqa: PT017 - no test framework here
    else:
        raise AssertionError(f"{kind.__name__} was to be raised, and it gave {got!r:.200}")


CASES: Final[tuple[Case, ...]] = (
    what_is_written_is_read_back,
    a_large_file_is_written_whole,
    a_file_keeps_its_mode_where_none_is_given,
    find_says_what_is_at_a_path,
    list_gives_what_is_directly_in_a_directory_by_name,
    remove_takes_a_directory_with_all_that_is_in_it,
    remove_takes_a_link_and_leaves_what_it_leads_to,
    the_workspace_itself_is_neither_removed_nor_written,
    a_file_that_is_not_there_is_missing,
    a_directory_is_no_file_nor_a_file_a_directory,
    paths_that_lead_out_are_refused,
    links_that_lead_out_are_refused,
    links_that_stay_within_are_followed,
)
