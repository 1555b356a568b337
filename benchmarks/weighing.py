"""How many bytes a World takes up on disk: its database and what stands beside it, weighed when it is closed."""

from pathlib import Path

from benchmarks.frame import Bench
from benchmarks.stage import carry
from outlast.adapter import Agent


def weight(file: Path) -> int:
    """Bytes of a World's database and of what stands beside it."""
    return sum(path.stat().st_size for path in file.parent.glob(f"{file.name}*") if path.is_file())


async def growth(bench: Bench, name: str, agent: Agent) -> int:
    """By how many bytes an empty World, in a directory `name` of its own, grows from one turn of `agent`."""
    here = Bench(bench.directory / name, bench.world, bench.quick)
    here.directory.mkdir()
    async with here.open():
        pass
    empty = weight(here.file)
    async with here.open() as world:
        await carry(here, world, agent, ["weighed"])
    return weight(here.file) - empty
