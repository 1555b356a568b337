"""The server that a run on Postgres stands on: fresh, stock but for its address, and durable."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.postgres import postgres_server


@contextmanager
def standing(world: str, directory: Path) -> Generator[str]:
    """Where the server is, whose data lie below `directory`; empty for a World that needs none."""
    if world != "postgres":
        yield ""
    else:
        with postgres_server(directory) as server:
            yield server.url
