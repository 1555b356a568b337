"""How many bytes a World takes up: its files, weighed when it is closed, or all that its schema has on the server."""

from pathlib import Path

from benchmarks.frame import Bench
from benchmarks.stage import carry
from outlast.adapter import Agent
from outlast.worlds.postgres.database import driver

RELATIONS = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relkind = 'r'
"""
"""Tables with their indexes and what lies outside their rows."""


def weight(file: Path) -> int:
    """Bytes of a World's database and of what stands beside it."""
    return sum(path.stat().st_size for path in file.parent.glob(f"{file.name}*") if path.is_file())


async def _weighed(bench: Bench) -> int:
    if bench.world != "postgres":
        return weight(bench.file)
    connection = await driver.connect(bench.server)
    try:
        return int(await connection.fetchval(RELATIONS, bench.schema))
    finally:
        await connection.close()


async def growth(bench: Bench, name: str, agent: Agent) -> int:
    """By how many bytes an empty World, in a place `name` of its own, grows from one turn of `agent`."""
    here = bench.below(name)
    async with here.open():
        pass
    empty = await _weighed(here)
    async with here.open() as world:
        await carry(here, world, agent, ["weighed"])
    return await _weighed(here) - empty
