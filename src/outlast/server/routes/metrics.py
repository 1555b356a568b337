"""Prometheus metrics of a tenant: its sessions by how they stand, who holds them, what was asked and who watches."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import Response

from outlast.server.access import Scope
from outlast.server.meter import Meter
from outlast.server.operations import Call, Nothing, Operation
from outlast.world import SessionHead, World

MEDIA: Final = "text/plain; version=0.0.4"
LOOKED_AT: Final = 20_000
"""Sessions that one scrape looks at, the newest change first: what that leaves out is said."""
OVERDUE_S: Final = 60.0
"""A session is overdue that was ready for so long and nobody has taken it."""
_PAGE: Final = 1000
_WORD: Final = re.compile(r"turn \d+ (\w+)")
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(slots=True)
class Census:
    """How the sessions of a tenant stand."""

    states: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """By agent and state: `new`, `idle`, `open`, `waiting`, `decision`, `stuck`, `diverged`, `budget`, `signal`."""
    overdue: int = 0
    leases: int = 0
    inputs: int = 0
    whole: bool = True
    """No session was left out."""


async def metrics(call: Call[Nothing, Nothing]) -> Response:
    """Give the metrics of the tenant, for Prometheus."""
    now_s = call.services.clock.now()
    census = await _census(call.world, now_s)
    lines = [*_of_census(census), *_of_meter(call.services.meter, call.identity.tenant)]
    return Response("\n".join([*lines, ""]), headers={"content-type": f"{MEDIA}; charset=utf-8"})


async def _census(world: World, now_s: float) -> Census:
    alive = {row.worker for row in await world.workers() if row.deadline_s > now_s}
    found, looked, after = Census(), 0, None
    while True:
        page = await world.list(after=after, limit=_PAGE)
        for head in page.sessions:
            _count(found, head, alive, now_s)
        looked, after = looked + len(page.sessions), page.next
        if after is None or looked >= LOOKED_AT:
            found.whole = after is None
            return found


def _count(census: Census, head: SessionHead, alive: set[str], now_s: float) -> None:
    census.states[head.agent, _state(head)] += 1
    census.inputs += head.waiting_inputs
    if head.worker is not None and head.worker in alive:
        census.leases += 1
    elif head.is_ready(now_s) and now_s - max(head.updated_at_s, head.wake_at_s or 0.0) > OVERDUE_S:
        census.overdue += 1


def _state(head: SessionHead) -> str:
    if not head.turn_open:
        return "new" if head.status == "new" else "idle"
    said = _WORD.match(head.status)
    return "open" if said is None else said.group(1)


def _of_census(census: Census) -> Iterator[str]:
    states = {(("agent", agent), ("state", state)): n for (agent, state), n in sorted(census.states.items())}
    yield from _metric("outlast_sessions", "gauge", "Sessions by agent and how they stand.", states)
    plain = {
        "outlast_sessions_overdue": (
            "Sessions that were ready for a minute and nobody has taken.",
            census.overdue,
        ),
        "outlast_leases": ("Sessions that a living worker holds.", census.leases),
        "outlast_inputs_waiting": ("Inputs that no commit has consumed.", census.inputs),
        "outlast_sessions_complete": ("1 when no session was left out of these.", int(census.whole)),
    }
    for name, (said, value) in plain.items():
        yield from _metric(name, "gauge", said, {(): value})


def _of_meter(meter: Meter, tenant: str) -> Iterator[str]:
    requests = {
        (("operation", operation), ("status", str(status))): count
        for (whose, operation, status), count in sorted(meter.requests.items())
        if whose == tenant
    }
    seconds = {
        (("operation", operation),): round(took_s, 6)
        for (whose, operation), took_s in sorted(meter.seconds.items())
        if whose == tenant
    }
    yield from _metric("outlast_requests_total", "counter", "Requests that this process answered.", requests)
    yield from _metric(
        "outlast_request_seconds_total", "counter", "Seconds that it took to begin answering them.", seconds
    )
    watching = {(): meter.watching[tenant]}
    yield from _metric("outlast_watchers", "gauge", "Streams that this process has open.", watching)


def _metric(
    name: str, kind: str, said: str, values: Mapping[tuple[tuple[str, str], ...], float]
) -> Iterator[str]:
    """One metric in Prometheus' text format. Source: https://prometheus.io/docs/instrumenting/exposition_formats."""
    yield f"# HELP {name} {said}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        told = ",".join(f'{label}="{text.translate(_ESCAPED)}"' for label, text in labels)
        yield f"{name}{{{told}}} {value}" if told else f"{name} {value}"


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", "/metrics", metrics, Scope.ADMIN, media="text/plain"),
)
