"""Where a run begins that is not the turn's own: in a durable tool's call, or in a guardrail."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from outlast.adapters.io import IO


@dataclass(eq=False, slots=True)
class Within:
    """What runs here, in a lane of its own."""

    io: IO
    stream: bool
    """Ask models for streams."""
    begun: Counter[str] = field(default_factory=Counter[str])
    """How many runs of each agent it has begun."""

    def key(self, agent: str) -> str:
        """Tells a run of an agent from all others that begin here: the same in every attempt."""
        self.begun[agent] += 1
        return f"{agent.replace('.', '·')}.{self.begun[agent]}"


_here: Final[ContextVar[Within | None]] = ContextVar("outlast_openai_agents_within", default=None)


def here() -> Within | None:
    """What durable tool or guardrail runs here, if one does."""
    return _here.get()


@contextmanager
def begun_within(io: IO, *, stream: bool) -> Generator[None]:
    """Runs that begin in this context belong to what has this lane."""
    token = _here.set(Within(io, stream))
    try:
        yield
    finally:
        _here.reset(token)
