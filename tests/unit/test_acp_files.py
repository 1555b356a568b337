"""The files of an ACP agent: what we write for it, and what we read of it while it writes."""

import random
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapter import Attempt, Places
from outlast.adapters.acp.blocks import BLOCK, Kept, pack, unpack
from outlast.adapters.acp.files import KEPT_BYTES, SessionFiles, write_files
from outlast.errors import HarnessError


class Mirror:
    """What was mirrored."""

    def __init__(self, home: Path) -> None:
        self.places = Places(home, home)
        self.lines: list[str] = []

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        self.lines[position:] = lines


def test_a_file_with_the_token_is_for_this_user_alone_and_written_through_no_link(tmp_path: Path) -> None:
    home, theirs = tmp_path / "home", tmp_path / "theirs.json"
    home.mkdir()
    theirs.write_text("theirs")
    (home / "agent.json").symlink_to(theirs)
    for _ in range(2):
        write_files(home, {"agent.json": "token"})
    assert theirs.read_text() == "theirs"
    assert (home / "agent.json").read_text() == "token"
    assert (home / "agent.json").stat().st_mode & 0o777 == 0o600


async def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    mirror, file = Mirror(tmp_path), tmp_path / "session.jsonl"
    files = SessionFiles(cast("Attempt", mirror), ["*.jsonl"])
    whole = '{"say":"\\u00e9 é"}\r\n'.encode()
    file.write_bytes(whole + "é".encode()[:1])
    await files.mirror()
    assert mirror.lines == [whole.decode()[:-1]]
    file.write_bytes(whole + "é\n".encode())
    await files.mirror()
    assert mirror.lines[1:] == ["é"]


async def test_a_line_that_the_agent_takes_away_is_not_brought_back(tmp_path: Path) -> None:
    mirror, file = Mirror(tmp_path), tmp_path / "session.jsonl"
    files = SessionFiles(cast("Attempt", mirror), ["*.jsonl"])
    for text in ("a\nb\nc\n", "a\n", "a\nd\n", ""):
        file.write_text(text)
        await files.mirror()
        assert mirror.lines == text.splitlines()


async def test_a_file_behind_a_link_is_not_mirrored(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("A SECRET OF SOMEBODY ELSE\n")
    (home / "d").symlink_to(outside)
    (home / "secret").symlink_to(outside / "secret")
    mirror = Mirror(home)
    await SessionFiles(cast("Attempt", mirror), ["d/*", "secret", "*.jsonl"]).mirror()
    assert mirror.lines == []


class Files(Mirror):
    """What was mirrored, by file, and how much was written for it."""

    def __init__(self, home: Path, files: dict[str, list[str]] | None = None) -> None:
        super().__init__(home)
        self.files = files or {}
        self.written = 0

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        assert position <= len(self.files.setdefault(file, []))
        self.files[file][position:] = lines
        self.written += sum(map(len, lines))

    async def mirrored(self) -> Mapping[str, Sequence[str]]:
        return self.files

    def session(self) -> SessionFiles:
        return SessionFiles(cast("Attempt", self), ["**/*.db", "*.bin", "*.jsonl"])


async def test_a_database_that_grows_costs_what_has_changed_and_comes_back_as_it_was(tmp_path: Path) -> None:
    mirror, there = Files(tmp_path / "one"), tmp_path / "one" / "deep" / "session.db"
    there.parent.mkdir(parents=True)
    files, source, draw = mirror.session(), sqlite3.connect(there, isolation_level=None), random.Random(7)
    source.execute("create table said (text)")
    sizes: list[int] = []
    for _ in range(60):
        source.execute("insert into said values (?)", (draw.randbytes(2_000).hex(),))
        before = mirror.written
        await files.mirror()
        sizes.append(mirror.written - before)
    assert mirror.written < 4 * there.stat().st_size
    assert sorted(sizes)[30] < 16_000
    fresh = Files(tmp_path / "two", mirror.files)
    (tmp_path / "two").mkdir()
    again = fresh.session()
    await again.restore()
    back = sqlite3.connect(tmp_path / "two/deep/session.db")
    assert list(back.execute("select text from said")) == list(source.execute("select text from said"))
    back.close()
    source.close()
    await again.mirror()
    assert fresh.written == 0, "what was brought back is in the mirror"


async def test_a_file_that_the_agent_has_deleted_is_not_brought_back(tmp_path: Path) -> None:
    mirror = Files(tmp_path)
    files, kept, lines = mirror.session(), tmp_path / "a.bin", tmp_path / "b.jsonl"
    for path in (kept, lines):
        path.write_text("something\n")
    await files.mirror()
    for path in (kept, lines):
        path.unlink()
    await files.mirror()
    await Files(tmp_path, mirror.files).session().restore()
    assert not kept.exists()
    assert not lines.exists()
    kept.write_text("another\n")
    await files.mirror()
    kept.unlink()
    await Files(tmp_path, mirror.files).session().restore()
    assert kept.read_text() == "another\n"


@given(st.lists(st.binary(max_size=3 * BLOCK), min_size=1, max_size=8), st.integers(0, 5))
def test_whatever_is_written_over_a_file_its_lines_give_it_back(contents: list[bytes], more: int) -> None:
    lines: list[str] = []
    kept: Kept | None = None
    for content in contents:
        data = content * (more + 1)
        at, new, kept = pack(data, kept)
        lines[at:] = new
        back, known = unpack(lines)
        assert (back, known) == (data, kept)
        assert pack(data, known)[1] == ()


async def test_a_file_that_is_too_large_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "session.db"
    with file.open("wb") as empty:
        empty.truncate(KEPT_BYTES + 1)
    files = SessionFiles(cast("Attempt", Mirror(tmp_path)), ["*.db"])
    with pytest.raises(HarnessError, match=r"64 MB .* Leave it out"):
        await files.mirror()
