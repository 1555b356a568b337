"""What the command line asks of a worker."""

from dataclasses import dataclass, field

from outlast.engine.deadlines import Supervision
from outlast.world import Limits


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
    offered: frozenset[str] = frozenset()
    """Names of the only agents that it offers; empty: all that it has."""
    tenants: tuple[str, ...] = ()
    """Whose sessions; empty: of the tenant that the settings name."""
    all_tenants: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class WrapWish:
    """The arguments of `outlast wrap`."""

    program: str
    """What the user calls the program; empty where a session is brought back."""
    harness: str
    """The built-in agent whose program it is."""
    flags: tuple[str, ...]
    """Of the program, after its name."""
    name: str | None
    resume: str | None
    """The session to bring back, or `newest`; None: a new one."""
    supervision: Supervision | None = None
