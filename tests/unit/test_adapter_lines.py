"""Where lines end in the files that programs keep of their sessions."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from outlast.adapter import Attempt, Places
from outlast.adapters.lines import end_of
from outlast.adapters.pi import session
from outlast.adapters.pi.files import SessionFile
from outlast.beneath import Beneath

LONG = b"x" * (1024 * 1024 - 3)


@pytest.mark.parametrize("lines", [[b"a\n", b"\n", b"b\r\n"], [LONG + b"\n", b"bc\n", LONG + b"\n", LONG]])
def test_lines_end_where_they_do_however_the_file_is_read(tmp_path: Path, lines: Sequence[bytes]) -> None:
    path, home = tmp_path / "lines", Beneath(tmp_path)
    assert end_of(home, "lines", 1) == 0
    path.write_bytes(b"".join(lines))
    ends = [sum(map(len, lines[:count])) for count in range(len(lines) + 1)]
    assert [end_of(home, "lines", count) for count in range(len(lines) + 1)] == ends
    assert end_of(home, "lines", 99) == ends[-1]


class Told:
    """An attempt at a turn that was typed, whose file the log has `lines` lines of."""

    def __init__(self, home: Path, lines: int) -> None:
        self.places = Places(home, home)
        self.turn = SimpleNamespace(input="typed-2")
        self.state = SimpleNamespace(files={f"{_FOLDER}/u.jsonl": SimpleNamespace(lines=lines)})
        self.mirrored: list[tuple[int, str]] = []

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        self.mirrored += enumerate(lines, position)


_FOLDER = ".outlast-pi/u/agent/sessions"


async def test_a_turn_at_a_terminal_is_looked_for_behind_what_the_log_has_only(tmp_path: Path) -> None:
    pen = session.Pen("u", 0)
    before = [
        session.header("/", pen),
        session.begin_turn([], "typed-1", pen),
        session.say_steer([], "one", pen),
    ]
    own = [session.begin_turn([], "typed-2", pen), session.say_steer([], "two", pen)]
    path = tmp_path / _FOLDER / "u.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{line}\n" for line in before))
    told = Told(tmp_path, len(before))
    file = SessionFile(cast("Attempt", told), "u")
    await file.go_on()
    assert not file.has_prompt
    # Whoever read it from its beginning would come no further than this.
    path.write_text("".join(f"{line}\n" for line in ["x" * len(before[0]), *before[1:], *own]))
    await file.mirror()
    assert [line for _, line in told.mirrored] == own
    assert told.mirrored[0][0] == len(before)
    assert file.has_prompt
