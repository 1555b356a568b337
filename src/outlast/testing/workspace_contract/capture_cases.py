"""What is promised of captures, and of sites that are opened with one."""

import re
from typing import Final

import anyio

from outlast.drive import Entry
from outlast.testing.workspace_contract.case import Case, Stand, captured, promise
from outlast.workspace import Site

NOTHING: Final = b""


@promise()
async def nothing_new_captures_as_the_same_root_without_packs(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/file", b"x")
        first = await stand.log.commit(site)
        assert first.root
        assert first.packs
        assert await stand.said(site, "cat d/file; ls") == "xd\n"
        again = await captured(site)
        assert again.root == first.root
        assert not again.packs
        assert not again.changed


@promise("settles")
async def what_is_captured_is_what_another_machine_opens(stand: Stand) -> None:
    async with stand.site() as site:
        await _furnish(stand, site)
        before = await _tree(site)
        await stand.log.commit(site)
    async with stand.elsewhere() as site:
        assert await _tree(site) == before
        said = await stand.said(site, "./d/tool; cat d/to/file; ls -d empty/within")
        assert said == "ran\nnewempty/within\n", said
        assert (await captured(site)).root == stand.log.root, "what was brought back is what was written down"


@promise()
async def what_is_captured_is_what_the_next_attempt_opens(stand: Stand) -> None:
    async with stand.site() as site:
        await _furnish(stand, site)
        before = await _tree(site)
        await stand.log.commit(site)
    async with stand.site() as site:
        assert await _tree(site) == before
        await site.files.write("second", b"2")
        await stand.log.commit(site)
    async with stand.site() as site:
        assert await site.files.read("second") == b"2"
        assert await site.files.read("d/file") == b"new"


@promise("settles")
async def what_is_gone_stays_gone(stand: Stand) -> None:
    async with stand.site() as site:
        for path in ("d/one", "d/two", "e/three", "was-file", "was-directory/file"):
            await site.files.write(path, b"x")
        await stand.log.commit(site)
        await stand.said(
            site, "rm d/one; rm -r e was-file was-directory; mkdir was-file; echo y > was-directory"
        )
        await stand.log.commit(site)
        before = await _tree(site)
    async with stand.elsewhere() as site:
        assert await _tree(site) == before
        assert sorted(before) == ["d", "d/two", "was-directory", "was-file"]
        await stand.said(site, "rm -r *")
        await stand.log.commit(site)
    async with stand.elsewhere() as site:
        assert await _tree(site) == {}


@promise("settles")
async def files_of_every_size_come_back(stand: Stand) -> None:
    contents = {
        f"n{size}": bytes((7 * at + size) % 251 for at in range(size)) for size in (0, 1, 63, 64, 65, 4096)
    }
    contents["large"] = bytes(range(256)) * 16_000
    async with stand.site() as site:
        for path, data in contents.items():
            await site.files.write(path, data)
        await stand.log.commit(site)
    async with stand.elsewhere() as site:
        for path, data in contents.items():
            assert await site.files.read(path) == data, path


@promise("settles")
async def many_files_come_back(stand: Stand) -> None:
    async with stand.site() as site:
        await stand.said(
            site, "for d in 1 2 3 4 5; do mkdir $d; for f in $(seq 100); do echo $d $f > $d/$f; done; done"
        )
        await stand.log.commit(site)
        await stand.said(site, "for f in $(seq 90); do rm 3/$f; done; echo changed > 5/50")
        last = await stand.log.commit(site)
        assert sum(map(len, last.packs.values())) < 20_000, "a small change is a small pack"
    async with stand.elsewhere() as site:
        assert (await stand.said(site, "ls 3 | wc -l; ls 4 | wc -l; cat 5/50 5/51")).split() == [
            *("10", "100", "changed", "5", "51")
        ]


@promise()
async def packs_are_given_again_until_they_are_durable(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("file", b"one")
        lost = await captured(site)
        assert lost.packs
        await site.files.write("other", b"two")
        await stand.log.commit(
            site
        )  # it holds all that the root leads to, though the first was never committed
        assert set(lost.packs) <= set(stand.log.packs)
    async with stand.site() as site:
        assert (await site.files.read("file"), await site.files.read("other")) == (b"one", b"two")


@promise()
async def a_capture_names_what_changed(stand: Stand) -> None:
    async with stand.site() as site:
        for path in ("d/one", "d/two", "three"):
            await site.files.write(path, b"x")
        await stand.log.commit(site)
        await stand.said(site, "echo y > d/one; rm three; echo new > four")
        changed = set((await stand.log.commit(site)).changed)
        assert {"d/one", "three", "four"} <= changed
        assert "d/two" not in changed


@promise()
async def a_capture_holds_no_half_of_a_command(stand: Stand) -> None:
    roots: list[str] = []
    async with stand.site() as site:
        await stand.said(site, "echo 0 > one; echo 0 > two")
        before = (await stand.log.commit(site)).root

        async def capture() -> None:
            roots.append((await stand.log.commit(site)).root)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stand.said, site, "echo 1 > one; sleep 0.5; echo 1 > two")
            await anyio.sleep(
                0.1
            )  # to be within the command, on most machines; the promise holds wherever it falls
            tasks.start_soon(capture)
        after = (await stand.log.commit(site)).root
    assert roots[0] in {before, after}


@promise("remembers")
async def a_shell_comes_back_with_its_files(stand: Stand) -> None:
    async with stand.site() as site:
        await stand.said(
            site,
            "mkdir d; cd d; export A=\"it's\"; B=$'x\\ny'; declare -A m=(['k 1']='v 1'); f() { echo f \"$@\" $A; }; "
            "unset HOSTTYPE; shopt -s nullglob; readonly R=1; arr=([3]=c [1]=a)",
        )
        await stand.log.commit(site)
    async with stand.elsewhere() as site:
        said = await stand.said(
            site,
            'pwd; f "$B"; echo "${m[k 1]}" "${!arr[@]}" "${HOSTTYPE-none}" $R; echo *.none; sh -c \'echo $A$B\'',
        )
        assert said == f"{site.cwd}/d\nf x\ny it's\nv 1 1 3 none 1\n\nit's\n", said
        assert (await captured(site)).aside == stand.log.aside
    assert len(str(stand.log.aside)) < 4_000


async def _furnish(stand: Stand, site: Site) -> None:
    """A tree with one of each: modes, links, an empty directory, times, bytes that are no text."""
    await site.files.write("d/file", b"new")
    await site.files.write("d/tool", b"#!/bin/sh\necho ran\n", mode=0o755)
    await site.files.write("d/private", bytes(range(256)), mode=0o600)
    await site.files.write("empty-file", NOTHING)
    await site.files.write("ümlaut und leer zeichen", b"u")
    await stand.said(
        site,
        "mkdir -p empty/within closed; chmod 700 closed; ln -s . d/to; ln -s nowhere/at/all dangling; "
        "ln -s /etc/passwd out; touch -d '2001-02-03 04:05:06' d/private empty closed",
    )
    old = await site.files.find("d/private")
    assert old is not None
    assert abs(old.mtime_ns // 1_000_000_000 - 981_173_106) < 86_400, "touch sets times"


async def _tree(site: Site) -> dict[str, tuple[Entry, bytes]]:
    """All that is in the site, with contents."""
    found: dict[str, tuple[Entry, bytes]] = {}
    ahead = [site.cwd]
    while ahead:
        for entry in await site.files.list(ahead.pop()):
            assert not re.search(r"^/|(^|/)\.\.(/|$)", entry.path), entry.path
            data = await site.files.read(entry.path) if entry.kind == "file" else NOTHING
            found[entry.path] = (_told(entry), data)
            if entry.kind == "dir":
                ahead.append(entry.path)
    return found


def _told(entry: Entry) -> Entry:
    """What must come back of an entry: all, but for what systems do not let one set of a link."""
    if entry.kind == "link":
        return Entry(entry.path, "link", 0, target=entry.target)
    return Entry(entry.path, entry.kind, entry.mode, entry.size, entry.mtime_ns)


CASES: Final[tuple[Case, ...]] = (
    nothing_new_captures_as_the_same_root_without_packs,
    what_is_captured_is_what_another_machine_opens,
    what_is_captured_is_what_the_next_attempt_opens,
    what_is_gone_stays_gone,
    files_of_every_size_come_back,
    many_files_come_back,
    packs_are_given_again_until_they_are_durable,
    a_capture_names_what_changed,
    a_capture_holds_no_half_of_a_command,
    a_shell_comes_back_with_its_files,
)
