"""A session that begins with files which its harness has already."""

from pathlib import Path

from outlast.clock import ManualClock
from outlast.founding import PIECE
from outlast.session import Session
from outlast.worlds.memory import MemoryStore, MemoryWorld


async def test_a_session_begins_with_the_files_that_it_is_given(tmp_path: Path) -> None:
    world = MemoryWorld(MemoryStore(ManualClock()))
    long = "x" * (PIECE // 2 + 1)
    files = {"a.jsonl": ["1", "2"], "b/c.txt": [long, long, "end"], "empty": []}
    session = await Session.open(world, "s", agent="a", home=tmp_path, files=files)
    state = await session.state()
    assert {name: file.lines for name, file in state.files.items()} == {"a.jsonl": 2, "b/c.txt": 3}
    assert len(state.files["b/c.txt"].pieces) == 2
    found = [await session.value(piece) for piece in state.files["b/c.txt"].pieces]
    assert [line for piece in found for line in piece] == [long, long, "end"]
