"""What is promised of sites that stand beside others, beside the host, and after their end."""

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from outlast.errors import OutlastError, WorkspaceError
from outlast.testing.workspace_contract.case import Case, Stand, promise

VARIABLE: Final = "OUTLAST_CONTRACT_SECRET"


@promise("fences")
async def an_older_fence_changes_nothing_that_a_newer_one_shows(stand: Stand) -> None:
    async with stand.site() as older:
        await older.files.write("file", b"before")
        await stand.log.commit(older)
        async with stand.site() as newer:
            assert await newer.files.read("file") == b"before"
            for change in (
                older.files.write("file", b"late"),
                stand.run(older, "echo late > late; rm -f file"),
            ):
                with suppress(OutlastError):  # refused is as good as unseen
                    await change
            assert await newer.files.read("file") == b"before"
            assert await newer.files.find("late") is None
            await newer.files.write("file", b"after")
            await stand.log.commit(newer)
    async with stand.site() as site:
        assert await site.files.read("file") == b"after"
        assert await site.files.find("late") is None


@promise()
async def nothing_acts_when_the_site_is_closed(stand: Stand) -> None:
    async with stand.site() as site:
        await stand.run(
            site, "(while :; do echo x >> ticks; sleep 0.05; done) > /dev/null 2>&1 &", timeout_s=1.0
        )
        await stand.log.commit(site)
    async with stand.site() as site:
        count = "cat ticks 2> /dev/null | wc -l"
        before = await stand.said(site, count)
        assert await stand.said(site, f"sleep 0.3; {count}") == before


@promise()
async def a_site_that_was_never_used_opens_and_closes(stand: Stand) -> None:
    async with stand.site() as site:
        assert site.cwd.startswith("/")
    async with stand.site() as site:
        assert list(await site.files.list("")) == []


@promise("isolates")
async def commands_see_no_files_of_the_host(stand: Stand) -> None:
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as name:
        await anyio.Path(name, "file").write_text(secret)
        async with stand.site() as site:
            ran = await stand.run(
                site,
                f"cat {name}/file; ls {name}; ln -s {name} link; cat link/file; cat /proc/self/root{name}/file; "
                f"cat /proc/1/root{name}/file; echo written > {name}/written; cp {name}/file copy; find / -name file",
            )
            assert secret not in ran.stdout + ran.stderr
            assert not await anyio.Path(name, "written").exists()


@promise("isolates")
async def commands_see_nothing_of_the_worker(stand: Stand) -> None:
    secret = secrets.token_hex(16)
    os.environ[VARIABLE] = secret
    try:
        async with stand.site() as site:
            ran = await stand.run(
                site, "env; cat /proc/*/environ /proc/*/cmdline /proc/self/task/*/environ; ps axeww"
            )
    finally:
        del os.environ[VARIABLE]
    assert VARIABLE not in ran.stdout, ran
    assert secret not in ran.stdout, ran


@promise()
async def programs_run_in_it_or_are_refused(stand: Stand) -> None:
    async with stand.site() as site:
        assert site.hosts_programs == ("programs" in stand.traits)
        if site.hosts_programs:
            await site.files.write("file", b"seen\n")
            async with site.processes.start(
                ["cat", "file"], env={"PATH": "/usr/bin:/bin"}, cwd=Path(site.cwd)
            ) as one:
                assert [line async for line in one.lines()] == [b"seen"]
                assert await one.wait() == 0
            return
        said = ""
        try:
            async with site.processes.start(["true"], env={}, cwd=Path("/")):
                raise AssertionError("a program was started")
        except WorkspaceError as error:
            said = str(error)
        assert "true" in said


CASES: Final[tuple[Case, ...]] = (
    an_older_fence_changes_nothing_that_a_newer_one_shows,
    nothing_acts_when_the_site_is_closed,
    a_site_that_was_never_used_opens_and_closes,
    commands_see_no_files_of_the_host,
    commands_see_nothing_of_the_worker,
    programs_run_in_it_or_are_refused,
)
