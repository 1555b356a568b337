"""What an attempt finds on its machine where its adapter needs nothing of it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from outlast.adapter import Agent, Gateway, Places, Processes
from outlast.engine.attempt import Surroundings
from outlast.fold import SessionState
from outlast.workspace import Note


@asynccontextmanager
async def nowhere(state: SessionState, agent: Agent, note: Note) -> AsyncGenerator[Surroundings]:
    at = Path("/nonexistent")
    yield Surroundings(cast("Gateway", None), cast("Processes", None), Places(at, at))
