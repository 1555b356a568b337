"""The files of an ACP agent: what we write for it, and what we read of it while it writes."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from outlast.adapter import Attempt, Places
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


async def test_a_file_that_is_too_large_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "session.db"
    with file.open("wb") as empty:
        empty.truncate(KEPT_BYTES + 1)
    files = SessionFiles(cast("Attempt", Mirror(tmp_path)), ["*.db"])
    with pytest.raises(HarnessError, match=r"64 MB .* Leave it out"):
        await files.mirror()
