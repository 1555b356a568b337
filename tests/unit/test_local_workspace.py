"""A directory of the user's as a workspace: tools work in it, and what a turn found there is kept."""

import os
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.engine.load import load_state
from outlast.errors import FileMissing, PathRefused, WorkspaceError
from outlast.session import Session
from outlast.sites import WorldPacks
from outlast.worker import WorkerConfig, open_worker
from outlast.workspace import Command, Ran
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.drive import Drive
from outlast.workspaces.local import commands, local
from outlast.workspaces.local.extent import Extent, ignored_by, left_to_git, measured
from outlast.workspaces.local.files import HostFiles
from outlast.world import World
from tests.stays import supervised

pytestmark = pytest.mark.crash


async def play(world: World, tmp_path: Path, function: LoopFunction) -> Any:
    """The result of one turn of a loop in `tmp_path/work`."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    agent = Agent("tester", Loop(function), tools=workspace_tools())
    session = await Session.open(world, "s-1", agent=agent, workspace=local(work))
    turn = await session.send("go")
    config = WorkerConfig(tmp_path / "data")
    async with open_worker(world, {"tester": agent}, cast("Gateway", None), config) as worker:
        await worker.work(until_idle=True)
    return (await turn.result()).value


async def test_the_tools_work_as_coding_agents_expect(world: World, tmp_path: Path) -> None:
    async def run(io: IO, prompt: str) -> object:
        said: dict[str, object] = {}

        async def tell(name: str, tool: str, **arguments: object) -> None:
            ended = await io.result(tool, arguments)
            said[name] = [ended.status, ended.value]

        await tell("write", "write", path="src/a.py", content="def a():\n    return 1\n")
        await tell("read", "read", path="src/a.py")
        await tell("edit", "edit", path="src/a.py", old_string="return 1", new_string="return 2")
        await tell("no", "edit", path="src/a.py", old_string="return 1", new_string="return 2")
        await tell("bash", "bash", command="cd src; cat a.py; echo oops >&2; exit 3")
        await tell("grep", "grep", pattern="return [0-9]", glob="*.py")
        await tell("files", "grep", pattern="return", show="files")
        await tell("none", "grep", pattern="nowhere to be found", path="src")
        await tell("glob", "glob", pattern="**/*.py")
        await tell("ls", "ls")
        await tell("out", "read", path="../secret")
        await tell("gone", "read", path="b.py")
        await tell("late", "bash", command="echo begins; sleep 30", timeout_s=0.5)
        return said

    said = await play(world, tmp_path, run)
    assert said["write"] == ["ok", "Wrote src/a.py: 22 bytes."]
    assert said["read"] == ["ok", "     1\tdef a():\n     2\t    return 1"]
    assert said["edit"] == ["ok", "Edited src/a.py: 1 place."]
    assert said["no"] == [
        "error",
        "old_string does not stand in src/a.py. Read it again: every space counts.",
    ]
    assert said["bash"] == ["ok", "def a():\n    return 2\noops\n[exit status 3]"]
    assert said["grep"] == ["ok", "src/a.py:2:    return 2"]
    assert said["files"] == ["ok", "src/a.py"]
    assert said["none"] == ["ok", "Nothing found."]
    assert said["glob"] == ["ok", "src/a.py"]
    assert said["ls"] == ["ok", "              src/"]
    assert said["out"][0] == "error"
    assert "leads out of the workspace" in said["out"][1]
    assert said["gone"] == ["error", "There is no file b.py."]
    assert said["late"] == ["ok", "begins\n[ended by its time-out of 0.5 s]"]


async def test_what_a_turn_found_and_left_is_kept_but_for_what_git_ignores(
    world: World, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    await anyio.run_process(["git", "init", "-q"], cwd=work)
    (work / ".gitignore").write_text("built/\n*.log\n")
    (work / "built").mkdir()
    (work / "built" / "big").write_text("built")
    (work / "a.log").write_text("log")
    (work / "a.txt").write_text("before")

    async def run(io: IO, prompt: str) -> object:
        return await io.tool("bash", command="echo after > a.txt; rm .gitignore; echo more > b.txt")

    await play(world, tmp_path, run)
    state = await load_state(world, "s-1")
    drive = Drive(WorldPacks(world, "s-1"), world.tenant)
    assert await drive.read(state.began[1], "a.txt") == b"before"
    assert {one.path for one in await drive.list(state.began[1])} == {"a.txt", ".gitignore"}
    assert await drive.read(state.tree.root, "a.txt") == b"after\n"


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    (tmp_path / "within").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "within" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "within" / "up").symlink_to(tmp_path)
    return HostFiles(tmp_path / "within")


@pytest.mark.parametrize("path", ["../secret", "out", "up/secret", "/etc/passwd", "a/../../secret"])
async def test_what_leads_out_is_refused(files: HostFiles, path: str) -> None:
    for ask in (files.read(path), files.write(path, b"x"), files.list(path)):
        with pytest.raises(PathRefused, match="leads out"):
            await ask


async def test_files_are_written_whole_listed_and_removed(files: HostFiles, tmp_path: Path) -> None:
    await files.write("a/b.sh", b"one", mode=0o755)
    await files.write("a/b.sh", b"two")
    entry = await files.find("a/b.sh")
    assert entry is not None
    assert (entry.kind, entry.mode, entry.size) == ("file", 0o755, 3)
    assert [one.path for one in await files.list("a")] == ["a/b.sh"]
    link = await files.find("out")
    assert link is not None
    assert link.kind == "link"
    await files.remove("out")
    assert (tmp_path / "secret").exists()
    await files.remove("a")
    assert await files.find("a/b.sh") is None
    with pytest.raises(FileMissing):
        await files.read("a/b.sh")
    with pytest.raises(WorkspaceError, match="Is a directory"):
        await files.read("")


def test_a_directory_that_holds_too_much_is_not_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / f"{number}").write_text("x" * 10)
    assert measured(tmp_path) == Extent()
    monkeypatch.setattr("outlast.workspaces.local.extent.BYTES_LIMIT", 40)
    assert "checkpoint='off'" in str(measured(tmp_path))
    monkeypatch.setattr("outlast.workspaces.local.extent.ENTRIES_LIMIT", 4)
    assert "more than 4 files" in str(measured(tmp_path))


async def test_what_git_would_ignore_is_told_by_the_rules_of_all_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also below a repository's top, and from within a hook of another."""
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    monkeypatch.setenv("GIT_DIR", "/nowhere/.git")
    work = tmp_path / "deep" / "work"
    work.mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("*.top\n/deep/work/exact\n")
    (tmp_path / "deep" / ".gitignore").write_text("*.mid\n")
    (work / ".gitignore").write_text("*.now\n")
    (work / "a.now").write_text("x")
    (tmp_path / ".git" / "info" / "exclude").write_text("*.own\n")
    names = [
        b"a.top",
        b"a.mid",
        b"a.own",
        b"a.now",
        b"a.then",
        b"exact",
        b"b/",
        b"b",
        b"c/d.then",
        b"plain\n\xff",
    ]
    found = ignored_by(work, {b".gitignore": b"*.then\nb/\n", b"c/.gitignore": b"!d.then\n"}, names)
    assert found == {b"a.top", b"a.mid", b"a.own", b"a.then", b"exact", b"b/"}
    assert ignored_by(work, {}, [b"plain"]) == frozenset()
    assert ignored_by(work, {}, []) == frozenset()
    assert left_to_git(work) == Extent(frozenset({b"a.now"}))


@pytest.mark.timeout(20)
async def test_what_is_no_file_or_too_large_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "pipe-link").symlink_to("pipe")
    files = HostFiles(tmp_path)
    for path, said in (
        ("pipe", "no file"),
        ("pipe-link", "no file"),
        (".", "director"),
        ("hole", "1,099,511,627,776"),
    ):
        with pytest.raises(WorkspaceError, match=said):
            await files.read(path)


def test_a_file_that_goes_while_a_directory_is_measured_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stays", "goes"):
        (tmp_path / name).write_text("x")
    scandir = os.scandir

    def going(at: bytes) -> list["os.DirEntry[bytes]"]:
        found = list(scandir(at))
        (tmp_path / "goes").unlink()
        return found

    monkeypatch.setattr(os, "scandir", going)
    assert measured(tmp_path) == Extent()


async def test_a_flood_of_output_fills_no_disk_and_ends_with_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes faster than it is read waits; a line may be as long as it likes, and no character is torn."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env = {"PATH": os.environ["PATH"]}

    async def ran(text: str, timeout_s: float = 60.0) -> Ran:
        return await commands.run(Command(text, "job", timeout_s=timeout_s), processes, tmp_path, env)

    async with supervised(tmp_path) as processes:
        flood = await ran(f"yes >&2 & sleep 0.5; find {tmp_path} -type f -size +1M | wc -l; wait", 1.5)
        assert (flood.timed_out, flood.stdout.strip()) == (True, "0")
        assert len(flood.stderr) < 210_000 < flood.cut
        for where in ("", ">&2"):
            line = await ran(f"head -c 70000000 /dev/zero | tr '\\0' a {where}")
            assert (line.status, line.cut) == (0, 70_000_000 - 200_000)
            letters = await ran(f"printf a {where}; yes ü | head -n 300000 | tr -d '\\n' {where}")
            assert letters.cut == 600_001 - 200_000
            assert "\ufffd" not in letters.stdout + letters.stderr
        assert (await ran("printf 'no end'; printf 'of line' >&2")) == Ran(0, "no end", "of line")
