"""What lies below a HOME in which programs of a sandbox write while the worker reads: no link is followed."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlast.adapter import Attempt, Places
from outlast.adapters.claude_code.files import SessionFiles as ClaudeFiles
from outlast.adapters.codex import files as codex
from outlast.adapters.pi.files import SessionFile as PiFile
from outlast.adapters.pi.launch import session_path
from outlast.beneath import Beneath, remove_tree
from outlast.errors import HarnessError

SECRET = "the key of whoever runs the worker"


class Mirror:
    """An attempt that keeps what is mirrored."""

    def __init__(self, home: Path) -> None:
        self.places = Places(home, home)
        self.tenant, self.session, self.fence = "default", "s", 1
        self.settings: dict[str, Any] = {}
        self.turn = SimpleNamespace(input="i", turn=1, calls={})
        self.state = SimpleNamespace(files={}, opened=None, cut=None)
        self.lines: list[str] = []

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        self.lines += lines


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session's own, beside a file that is not."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text(SECRET)
    made = tmp_path / "home"
    made.mkdir()
    return made


PLANTED: dict[str, Callable[[Path, str], None]] = {
    "the file is a link": lambda home, name: (home / name).symlink_to(home.parent / "outside/secret"),
    "the file is a pipe": lambda home, name: os.mkfifo(home / name),
    "the file is a directory": lambda home, name: (home / name).mkdir(),
}


@pytest.mark.parametrize("how", PLANTED)
def test_nothing_is_read_but_a_file_that_stands_there_itself(home: Path, how: str) -> None:
    PLANTED[how](home, "notes")
    with pytest.raises(HarnessError, match="no file of its own"):
        Beneath(home).read("notes")


@pytest.mark.parametrize("name", ["d/secret", "../outside/secret", "d/../../outside/secret", "."])
def test_no_way_leads_out(home: Path, name: str) -> None:
    (home / "d").symlink_to(home.parent / "outside")
    with pytest.raises(HarnessError):
        Beneath(home).read(name)


def test_a_file_is_read_from_anywhere_and_no_further_than_was_asked(home: Path) -> None:
    (home / "a").mkdir()
    (home / "a/b").write_bytes(b"0123456789")
    below = Beneath(home)
    assert below.read(home / "a/b", offset=2, most=3) == b"234"
    assert below.read("a/b", offset=20) == b""
    with pytest.raises(FileNotFoundError):
        below.read("a/c")
    os.truncate(home / "a/b", 10 << 40)
    assert len(below.read("a/b", most=100)) == 100


def test_what_is_written_takes_the_place_of_links_and_changes_nothing_outside(home: Path) -> None:
    outside = home.parent / "outside"
    (home / "d").symlink_to(outside)
    (home / "e").mkdir()
    (home / "e/secret").symlink_to(outside / "secret")
    Beneath(home).write("d/secret", b"ours")
    Beneath(home).write("e/secret", b"ours")
    Beneath(home).remove("e")
    assert (outside / "secret").read_text() == SECRET
    assert (home / "d/secret").read_bytes() == b"ours"
    assert not (home / "d").is_symlink()
    assert (home / "d/secret").stat().st_mode & 0o777 == 0o600


def test_a_tree_is_removed_however_deep_and_closed_it_is(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("d", dir_fd=fd)
        os.close(os.open("f", os.O_CREAT, dir_fd=fd))
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    (top / "link").symlink_to(tmp_path)
    (top / "closed/in").mkdir(parents=True)
    (top / "closed").chmod(0)
    remove_tree(top)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


async def test_a_result_of_claude_code_that_is_a_link_is_not_mirrored(home: Path) -> None:
    attempt = Mirror(home)
    files = ClaudeFiles(cast("Attempt", attempt), "u")
    at = home / files.go_on().relative_to(home).with_suffix("") / "tool-results"
    at.mkdir(parents=True)
    (at / "one.txt").symlink_to(home.parent / "outside/secret")
    await files.mirror("t.jsonl", ["see /tool-results/one.txt"])
    assert attempt.lines == ["see /tool-results/one.txt"]


def test_a_rollout_of_codex_that_is_a_link_is_not_read(home: Path) -> None:
    (home / "rollout").symlink_to(home.parent / "outside/secret")
    with pytest.raises(HarnessError, match="no file of its own"):
        codex._has_grown(Beneath(home), "rollout", 0)  # pyright: ignore[reportPrivateUsage] - what looks at it


def test_codex_is_laid_out_though_its_directory_is_a_link(home: Path) -> None:
    (home / codex.codex_home("t")).parent.mkdir(parents=True, exist_ok=True)
    (home / codex.codex_home("t")).symlink_to(home.parent / "outside")
    codex.lay_out(
        home, "t", f"{codex.codex_home('t')}/rollout", {"config.toml": "x = 1"}, {"payload": {}}, []
    )
    assert sorted(path.name for path in (home.parent / "outside").iterdir()) == ["secret"]


async def test_a_session_of_pi_that_is_a_link_is_not_read(home: Path) -> None:
    attempt = Mirror(home)
    file = PiFile(cast("Attempt", attempt), "u")
    at = home / session_path("u")
    at.parent.mkdir(parents=True)
    at.symlink_to(home.parent / "outside/secret")
    with pytest.raises(HarnessError, match="no file of its own"):
        await file.mirror()
