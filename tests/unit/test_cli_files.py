"""`outlast files`: what the log has of a session's files, read without a worker."""

import base64
import io
import json
import stat
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.codec import Packer
from outlast.drive import Entry
from outlast.opening import open_world
from outlast.records import FilesKept
from outlast.session import Session
from outlast.workspaces.drive import Edit
from outlast.world import World
from tests.kept import Kept


class Line:
    """A World with sessions that have files and sessions that have none, and a command line."""

    def __init__(self, directory: Path) -> None:
        self.url = f"sqlite:{directory / 'world.db'}"
        self.environ = {"OUTLAST_DATA_DIR": str(directory / "data"), "OUTLAST_WORLD": self.url}
        self.marks: dict[str, int] = {}
        anyio.run(self.within, self._fill)

    async def within(self, body: Callable[[World], Awaitable[None]]) -> None:
        async with open_world(self.url) as world:
            await body(world)

    async def _fill(self, world: World) -> None:
        kept = Kept(world, "s")
        await kept.open()
        await kept.play({"a.txt": "one\ntwo\n", "src/app.py": "print(1)\n"}, {"a.txt": "one\nthree\n"})
        others = [
            Edit("run", Entry("run", "file", 0o755, mtime_ns=5), b"#!/bin/sh"),
            Edit("void", Entry("void", "dir", 0o700, mtime_ns=7_500_000_000)),
            Edit("link", Entry("link", "link", target="a.txt", mtime_ns=9)),
        ]
        await kept.play({"src/app.py": None, "bin": b"\x00\xff", "empty": ""}, others)
        self.marks = {**kept.marks, "head": kept.seq}
        await Session.open(world, "bare", agent="nobody")
        await Kept(world, "new").open()
        await Kept(world, "off").open({"kind": "local", "path": "/tmp", "checkpoint": "off"})

    def run(self, *words: str, status: int = 0) -> Result:
        result = CliRunner().invoke(main, ["files", *words], env=self.environ)
        assert result.exit_code == status, result.output
        return result

    def json(self, *words: str, status: int = 0) -> list[Any]:
        return [json.loads(line) for line in self.run(*words, "--json", status=status).stdout.splitlines()]

    def paths(self, *words: str) -> list[str]:
        return [row["path"] for row in self.json(*words)]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Line:
    return Line(tmp_path_factory.mktemp("files"))


def test_ls_lists_a_directory_at_any_commit_and_before_any_turn(line: Line) -> None:
    assert line.paths("s") == ["a.txt", "bin", "empty", "link", "run", "src", "void"]
    assert line.paths("s", "ls", "--turn", "2") == ["a.txt", "src"]
    assert line.paths("s", "ls", "src", "--turn", "2") == ["src/app.py"]
    assert line.paths("s", "ls", "src") == []
    assert line.paths("s", "ls", "--all", "--at", str(line.marks["begin 2"])) == [
        "a.txt",
        "src",
        "src/app.py",
    ]
    assert line.paths("s", "ls", "run") == ["run"]
    text = line.run("s").stdout.splitlines()
    assert text[-1].split()[0] == "700"
    assert text[3].endswith("link -> a.txt")


def test_cat_prints_the_bytes_of_a_file(line: Line) -> None:
    assert line.run("s", "cat", "a.txt").stdout == "one\nthree\n"
    assert line.run("s", "cat", "bin").stdout_bytes == b"\x00\xff"
    assert line.json("s", "cat", "a.txt") == [{"path": "a.txt", "size": 10, "text": "one\nthree\n"}]
    assert base64.b64decode(line.json("s", "cat", "bin")[0]["base64"]) == b"\x00\xff"
    assert line.json("s", "cat", "gone", status=3)[0]["error"] == "FileMissing"
    assert line.json("s", "cat", status=2)[0]["error"] == "BadInput"
    assert line.json("s", "cat", "../secret", status=2)[0]["error"] == "BadInput"


def test_diff_shows_what_a_turn_or_a_span_of_commits_has_changed(line: Line) -> None:
    whole = line.run("s", "diff").stdout
    assert "--- a/src/app.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-print(1)\n" in whole
    assert "bin: differs (0 → 2 bytes; no text, or too long to be shown)" in whole
    assert "void: directory 700 is new" in whole
    assert "empty: file 644 is new" in whole
    assert "+#!/bin/sh\n\\ No newline at end of file\n" in whole
    assert {(row["path"], row["what"]) for row in line.json("s", "diff", "--turn", "1")} == {
        ("a.txt", "added"),
        ("src", "added"),
        ("src/app.py", "added"),
    }
    since = str(line.marks["begin 1"] + 1)
    changed = line.run("s", "diff", "a.txt", "--since", since).stdout
    assert "-two\n+three\n" in changed
    assert "bin" not in changed
    assert line.run("s", "diff", "--since", str(line.marks["head"])).stdout == ""


def test_diff_of_a_turn_shows_nothing_that_came_after_it(line: Line) -> None:
    """Neither what a user has changed by hand since, nor what was brought back."""

    async def fill(world: World) -> None:
        kept = Kept(world, "by-hand")
        await kept.open()
        await kept.play({"a": "one"})
        await kept.by_hand({"a": "by hand", "mine": "by hand"})
        await kept.play({"a": "two"})
        await kept.play()
        record = FilesKept("", kept.turn, "undo")
        await kept._put([record], Packer("default", set()))  # pyright: ignore[reportPrivateUsage] - as `outlast undo` does

    anyio.run(line.within, fill)
    assert line.paths("by-hand", "diff", "--turn", "1") == ["a"]
    (change,) = line.json("by-hand", "diff", "--turn", "2")
    assert (change["what"], change["before"]["size"], change["after"]["size"]) == ("changed", 7, 3)
    assert line.paths("by-hand", "diff", "--turn", "3") == line.paths("by-hand", "diff") == []


def test_tar_holds_modes_times_links_and_empty_directories(line: Line, tmp_path: Path) -> None:
    file = tmp_path / "all.tar"
    assert line.json("s", "tar", "--output", str(file)) == [{"file": str(file), "entries": 7}]
    for data in (file.read_bytes(), line.run("s", "tar").stdout_bytes):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = {one.name: one for one in archive.getmembers()}
            assert sorted(members) == ["a.txt", "bin", "empty", "link", "run", "src", "void"]
            assert members["void"].isdir()
            assert (members["void"].mode, members["void"].mtime) == (0o700, 7.5)
            assert members["run"].mode & stat.S_IXUSR
            assert (members["link"].issym(), members["link"].linkname) == (True, "a.txt")
            content = archive.extractfile("bin")
            assert content is not None
            assert content.read() == b"\x00\xff"
            assert archive.getmember("run").pax_headers["mtime"] == "0.000000005", "to the nanosecond"
    with tarfile.open(fileobj=io.BytesIO(line.run("s", "tar", "src", "--turn", "2").stdout_bytes)) as archive:
        assert archive.getnames() == ["src/app.py"]
    line.run("s", "tar", "nowhere", status=3)


@pytest.mark.parametrize(
    ("session", "why"),
    [
        ("bare", "a directory that its worker gives it"),
        ("new", "nothing of its workspace, virtual, had been kept yet"),
        ("off", "checkpoint='off'"),
    ],
)
def test_a_session_without_files_says_why(line: Line, session: str, why: str) -> None:
    for words in (["ls"], ["diff"], ["tar"]):
        said = line.json(session, *words, status=3)[0]
        assert why in said["message"]


def test_what_cannot_be_asked_for_has_its_status(line: Line) -> None:
    assert line.json("s", "ls", "--at", "99", status=3)[0]["error"] == "CommitUnknown"
    assert line.json("s", "ls", "--turn", "9", status=3)[0]["error"] == "TurnUnknown"
    assert line.json("s", "ls", "--at", "1", status=3)[0]["error"] == "NotFound"
    assert line.json("nobody", status=3)[0]["error"] == "SessionUnknown"
    line.run("s", "ls", "--since", "1", status=2)
    line.run("s", "ls", "--at", "3", "--turn", "1", status=2)
    line.run("s", "mv", status=2)


def test_a_fork_has_the_files_of_its_past_and_keeps_them_when_its_source_is_erased(line: Line) -> None:
    at = line.marks["begin 2"]

    async def fork(world: World) -> None:
        kept = Kept(world, "source")
        await kept.open()
        await kept.play({"a.txt": "shared\n"})
        await kept.play({"a.txt": "the source's\n"})
        await (await Session.find(world, "source")).fork(before_turn=2, id="fork")
        await world.erase("source")

    anyio.run(line.within, fork)
    assert at
    assert line.run("fork", "cat", "a.txt").stdout == "shared\n"
