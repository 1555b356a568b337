"""`outlast undo`: a user's directory as it was before a turn, and back again."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.cli.undo import undo
from outlast.opening import open_world
from outlast.session import Session
from outlast.sites import kept_roots
from outlast.workspaces.drive import Drive, Folder, collect, open_store
from outlast.workspaces.local import local
from outlast.world import World
from tests.kept import Kept


class Shop:
    """A directory in which a session has had turns, and a command line."""

    def __init__(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "shop"
        self.directory.mkdir()
        self.url = f"sqlite:{tmp_path / 'world.db'}"
        self.environ = {"OUTLAST_DATA_DIR": str(tmp_path / "data"), "OUTLAST_WORLD": self.url}
        self.world(self._fill)

    def world(self, body: Callable[[World], Awaitable[None]]) -> None:
        async def within() -> None:
            async with open_world(self.url) as world:
                await body(world)

        anyio.run(within)

    async def _fill(self, world: World) -> None:
        kept = Kept(world, "s")
        await kept.open(dict(local(self.directory).reference()), str(self.directory))
        await kept.play({"a.txt": "one\n", "src/b.txt": "b\n"})
        await kept.play({"a.txt": "two\n", "src/b.txt": None, "new.txt": "new\n"})
        await kept.play({"a.txt": "three\n"})
        await Folder(kept.drive, self.directory).restore(kept.root)

    def run(self, *words: str, status: int = 0) -> Result:
        result = CliRunner().invoke(main, ["undo", *words], env=self.environ)
        assert result.exit_code == status, result.output
        return result

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", status=status).stdout.splitlines()[-1])

    def files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in sorted(self.directory.rglob("*")):
            if path.is_file():
                found[str(path.relative_to(self.directory))] = path.read_text()
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


LAST = {"a.txt": "three\n", "new.txt": "new\n"}


def test_the_newest_turn_is_undone_and_the_undo_too(shop: Shop) -> None:
    assert shop.files() == LAST
    done = shop.run("s", "--yes").stdout
    assert "-three\n+two\n" in done
    assert shop.files() == {"a.txt": "two\n", "new.txt": "new\n"}
    back = done.rsplit("--at ", 1)[1].strip()
    assert shop.json("s", "--at", back, "--yes")["changed"] == ["a.txt"]
    assert shop.files() == LAST


def test_an_earlier_turn_brings_back_what_was_removed_and_removes_what_was_made(shop: Shop) -> None:
    done = shop.json("s", "--turn", "2", "--yes")
    assert done["changed"] == ["a.txt", "new.txt", "src/b.txt"]
    assert shop.files() == {"a.txt": "one\n", "src/b.txt": "b\n"}
    assert shop.json("s", "--turn", "1", "--yes")["before"] == "turn 1"
    assert shop.files() == {}
    assert shop.json("s", "--at", str(done["back"]), "--yes")["session"] == "s"
    assert shop.files() == LAST


def test_what_was_changed_by_hand_is_shown_kept_and_can_be_had_back(shop: Shop) -> None:
    mine = shop.directory / "mine.txt"
    mine.write_text("by hand\n")
    mine.chmod(0o600)
    done = shop.run("s", "--yes").stdout
    assert "-by hand" in done
    assert not mine.exists()
    shop.run("s", "--at", done.rsplit("--at ", 1)[1].strip(), "--yes")
    assert mine.read_text() == "by hand\n"
    assert mine.stat().st_mode & 0o777 == 0o600


def test_nothing_to_bring_back_is_said_and_writes_nothing(shop: Shop) -> None:
    shop.run("s", "--yes")
    before = shop.json("s", "--turn", "3", "--yes")
    assert before["back"] is None
    assert before["changed"] == []


def test_without_a_terminal_nothing_is_done_unless_it_was_said(shop: Shop) -> None:
    assert shop.json("s", status=2)["error"] == "BadInput"
    assert shop.files() == LAST


def test_an_open_turn_and_one_that_may_begin_refuse_it(shop: Shop) -> None:
    async def send(world: World) -> None:
        await (await Session.find(world, "s")).send("more")

    async def begin(world: World) -> None:
        kept = Kept(world, "busy")
        await kept.open(dict(local(shop.directory).reference()), str(shop.directory))
        await kept.play({"a.txt": "one\n"})
        await kept.begin()

    shop.world(begin)
    assert "Turn 2 of busy is open" in shop.json("busy", "--yes", status=5)["message"]
    shop.world(send)
    assert "A prompt waits" in shop.json("s", "--yes", status=5)["message"]
    assert shop.files() == LAST


@pytest.mark.parametrize("at", ["checkpoint", "restore"])
def test_a_turn_that_begins_meanwhile_is_told_of(
    shop: Shop, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = getattr(Folder, at)

    async def beside(folder: Folder, root: str) -> object:
        done = await act(folder, root)
        async with open_world(shop.url) as world:
            kept = Kept(world, "s", turn=3, seq=(await world.get("s")).seq)
            await kept.begin()
        return done

    monkeypatch.setattr(Folder, at, beside)
    said = shop.json("s", "--yes", status=5)["message"]
    if at == "checkpoint":
        assert "nothing was brought back" in said
        assert shop.files() == LAST
    else:
        assert "has begun meanwhile" in said
        assert shop.files() == {"a.txt": "two\n", "new.txt": "new\n"}


def test_what_is_no_directory_of_the_user_s_is_left(shop: Shop) -> None:
    async def fill(world: World) -> None:
        await Kept(world, "virtual").open()
        await Session.open(world, "bare", agent="nobody")
        elsewhere = Kept(world, "elsewhere")
        await elsewhere.open(dict(local(shop.directory, host="another").reference()))
        await elsewhere.play({"a": "b"})
        gone = Kept(world, "gone")
        await gone.open({**local(shop.directory).reference(), "path": "/nowhere/at/all"})
        await gone.play({"a": "b"})

    shop.world(fill)
    assert "a workspace of the kind virtual" in shop.json("virtual", "--yes", status=2)["message"]
    assert "outlast fork bare" in shop.json("bare", "--yes", status=2)["message"]
    assert "another machine" in shop.json("elsewhere", "--yes", status=2)["message"]
    assert "not there any more" in shop.json("gone", "--yes", status=1)["message"]
    assert shop.json("s", "--turn", "9", "--yes", status=3)["error"] == "TurnUnknown"
    shop.run("s", "--turn", "1", "--at", "1", "--yes", status=2)
    assert shop.files() == LAST


def test_what_an_undo_keeps_goes_to_the_store_that_has_the_other_files(shop: Shop, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))

    async def fill(world: World) -> None:
        kept = Kept(world, "stored")
        kept.drive = Drive(store, "default", put=partial(store.put_many, session="stored-folder", fence=0))
        workspace = local(shop.directory, store=str(tmp_path / "store"))
        await kept.open(dict(workspace.reference()), str(shop.directory))
        await kept.play({"a.txt": "stored\n"})

    async def nothing_in_the_world(world: World) -> None:
        commits = await world.commits("stored")
        assert not any(commit.header.refs for commit in commits)
        found = await collect(store, kept_roots(world), grace_s=0.0)
        assert (found.reached, found.removed) == (2, 0)

    shop.world(fill)
    shop.run("s", "--turn", "1", "--yes")
    (shop.directory / "mine.txt").write_text("by hand\n")
    back = shop.json("stored", "--yes")["back"]
    assert shop.files() == {}
    shop.run("stored", "--at", str(back), "--yes")
    assert shop.files() == {"mine.txt": "by hand\n"}
    shop.world(lambda world: world.erase("s"))
    shop.world(nothing_in_the_world)


def test_what_a_turn_has_made_git_ignore_is_brought_back_and_what_it_no_longer_ignores_stays(
    shop: Shop,
) -> None:
    """At its end the rules are other than at its beginning: neither may cost the user a file."""
    anyio.run(anyio.run_process, ["git", "init", "-q", str(shop.directory)])

    async def fill(world: World) -> None:
        kept = Kept(world, "rules")
        await kept.open(dict(local(shop.directory).reference()), str(shop.directory))
        before = {
            ".gitignore": "env\ncache/\n",
            "sub/.gitignore": "*.o\n",
            "src/a.py": "one\n",
            "sub/b": "b\n",
        }
        await kept.play({**before, "a.txt": None})
        await kept.play({})
        await Folder(kept.drive, shop.directory).restore(kept.root)

    shop.run("s", "--turn", "1", "--yes")
    shop.world(fill)
    anyio.run(anyio.run_process, ["git", "init", "-q", str(shop.directory)])
    theirs = {"env": "secret", "cache/x": "kept", "cache/deep/y": "kept", "sub/c.o": "made"}
    for path, text in theirs.items():
        (shop.directory / path).parent.mkdir(parents=True, exist_ok=True)
        (shop.directory / path).write_text(text)
    (shop.directory / ".gitignore").write_text("src/\nnew/\n")
    (shop.directory / "sub/.gitignore").unlink()
    (shop.directory / "src/a.py").write_text("two\n")
    (shop.directory / "src/b.py").write_text("made and ignored\n")
    (shop.directory / "made.txt").write_text("made\n")
    done = shop.json("rules", "--turn", "2", "--yes")
    assert done["changed"] == [".gitignore", "made.txt", "src/a.py", "sub/.gitignore"]
    rules = {".gitignore": "env\ncache/\n", "sub/.gitignore": "*.o\n", "sub/b": "b\n"}
    found = {path: text for path, text in shop.files().items() if not path.startswith(".git/")}
    assert found == {**theirs, **rules, "src/a.py": "one\n", "src/b.py": "made and ignored\n"}
    shop.run("rules", "--at", str(done["back"]), "--yes")
    found = {path: text for path, text in shop.files().items() if not path.startswith(".git/")}
    assert found["src/a.py"] == "two\n"
    assert found["made.txt"] == "made\n"
    assert found.items() >= theirs.items()


@pytest.mark.parametrize("broken", ["config", "program"])
def test_where_git_does_not_say_what_it_ignores_nothing_is_touched(
    shop: Shop, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    anyio.run(anyio.run_process, ["git", "init", "-q", str(shop.directory)])
    (shop.directory / ".gitignore").write_text("env\n")
    (shop.directory / "env").write_text("secret")
    if broken == "config":
        (shop.directory / ".git" / "config").write_text("no config [")
    else:
        monkeypatch.setitem(shop.environ, "PATH", "/nowhere")
    said = shop.json("s", "--turn", "1", "--yes", status=1)["message"]
    assert "git does not say what it ignores there" in said
    assert (shop.directory / "env").read_text() == "secret"
    assert (shop.directory / "a.txt").exists()


def test_what_git_ignores_and_git_s_own_files_stay(shop: Shop) -> None:
    anyio.run(anyio.run_process, ["git", "init", "-q", str(shop.directory)])
    (shop.directory / ".gitignore").write_text("cache/\n")
    (shop.directory / "cache").mkdir()
    (shop.directory / "cache" / "big").write_text("ignored")
    shop.run("s", "--turn", "1", "--yes")
    assert (shop.directory / "cache" / "big").read_text() == "ignored"
    assert (shop.directory / ".git" / "HEAD").exists()
    assert undo.name == "undo"
