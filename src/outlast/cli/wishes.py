"""What the command line asks of a worker."""

from dataclasses import dataclass

from outlast.engine.deadlines import Supervision


@dataclass(frozen=True, slots=True)
class WorkerWish:
    """The arguments of `outlast work`."""

    agents: tuple[str, ...]
    """Of the application, as `module:object`."""
    only: str | None
    name: str
    concurrency: int | None
    until_idle: bool
    until_eof: bool
    """Standard input belongs to somebody who watches: when it ends, finish what runs and end."""
    until_s: float | None = None
    """Seconds after which this process may be ended."""
    supervision: Supervision | None = None
