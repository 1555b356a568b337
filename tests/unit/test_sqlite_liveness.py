"""Worker rows of a SQLite World whose files were hurt."""

from pathlib import Path

import pytest

from outlast.testing.world_contract.blocks import renew
from outlast.worlds.sqlite import open_sqlite


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"worker": "w1"}', b"\xff\xfe"])
async def test_a_torn_row_of_a_worker_hides_no_other_and_closes_no_world(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "world.db"
    async with open_sqlite(path) as world:
        renew(world, "lives")
        (path.with_name("world.db-workers") / "torn").write_bytes(torn)
        assert [row.worker for row in await world.workers()] == ["lives"]
    async with open_sqlite(path) as again:
        assert [row.worker for row in await again.workers()] == ["lives"]
