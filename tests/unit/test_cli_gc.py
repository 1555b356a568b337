"""`outlast gc`: what goes, what stays, and what it refuses."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.opening import open_world
from outlast.workspaces.drive import Drive, open_store
from outlast.world import World
from tests.stored import stored

Found = TypeVar("Found")


class Line:
    """A store, Worlds that use it, and a command line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.environ = {"OUTLAST_DATA_DIR": str(directory / "data"), "OUTLAST_WORLD": self.url("one")}

    def url(self, name: str) -> str:
        return f"sqlite:{self.directory / name}.db"

    def within(self, name: str, body: Callable[[World], Awaitable[Found]]) -> Found:
        async def run() -> Found:
            async with open_world(self.url(name)) as world:
                return await body(world)

        return anyio.run(run)

    def fill(self, world: str, session: str) -> list[str]:
        versions = [{"a.txt": f"{session} one"}, {"a.txt": f"{session} two"}]
        return self.within(world, lambda opened: stored(opened, session, self.store, *versions))

    def run(self, *words: str, status: int = 0) -> Result:
        result = CliRunner().invoke(main, [*words], env=self.environ)
        assert result.exit_code == status, result.output
        return result

    def gc(self, *words: str) -> dict[str, Any]:
        found = [json.loads(line) for line in self.run("gc", *words, "--json").stdout.splitlines()]
        [value] = found
        return value

    def packs(self) -> int:
        return sum(path.is_file() for path in self.store.rglob("packs/*/*"))

    def read(self, root: str) -> bytes:
        return anyio.run(Drive(open_store(str(self.store)), "default").read, root, "a.txt")


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


NOW = ("--older-than", "1ms")


def test_what_only_an_erased_session_had_goes_and_every_commit_of_others_stays(line: Line) -> None:
    kept, _ = line.fill("one", "s-1"), line.fill("one", "s-2")
    before = line.packs()
    assert line.gc(*NOW)["removed"] == 0
    line.run("rm", "s-2", "--yes")
    dry = line.gc("--dry-run", *NOW)
    assert (dry["removed"], dry["dry_run"], line.packs()) == (2, True, before)
    assert line.gc(*NOW)["removed"] == 2
    assert line.packs() == before - 2
    assert [line.read(root) for root in kept] == [b"s-1 one", b"s-1 two"]


def test_packs_of_the_last_day_stay(line: Line) -> None:
    line.fill("one", "s-1")
    line.run("rm", "s-1", "--yes")
    assert line.gc(str(line.store))["removed"] == 0
    assert line.gc(str(line.store), *NOW)["removed"] == 2


def test_a_store_that_sessions_of_another_world_use_is_left_alone_unless_they_are_counted(line: Line) -> None:
    kept = line.fill("one", "s-1")
    others = line.fill("other", "s-9")
    before = line.packs()
    refused = line.run("gc", *NOW, status=5)
    assert "Sessions that are in none of these Worlds" in refused.output
    assert "--beside URL" in refused.output
    assert line.packs() == before
    assert line.gc(*NOW, "--beside", line.url("other"))["removed"] == 0
    assert line.read(others[0]) == b"s-9 one"
    assert line.gc(*NOW, "--forget-others")["removed"] == 2
    assert line.gc(*NOW)["removed"] == 0  # they are known to be gone from now on
    assert [line.read(root) for root in kept] == [b"s-1 one", b"s-1 two"]


def test_a_tree_that_cannot_be_read_ends_it_before_anything_is_removed(line: Line) -> None:
    line.fill("one", "s-1")
    line.fill("one", "s-2")
    line.run("rm", "s-2", "--yes")
    for path in line.store.rglob("packs/*/*"):
        if b"s-1 two" in path.read_bytes():
            path.unlink()
    before = line.packs()
    line.run("gc", *NOW, status=1)
    assert line.packs() == before


def test_without_stores_there_is_nothing_to_collect(line: Line) -> None:
    assert "keeps its files in a store" in line.run("gc").stderr
