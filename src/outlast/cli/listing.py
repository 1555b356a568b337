"""What `ls` says of a session: how it stands, and what it waits for."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from outlast.cli.awaited import Awaited, awaited_by, brief
from outlast.cli.text import age, moment
from outlast.clock import Clock
from outlast.errors import OutlastError
from outlast.session import Session
from outlast.world import SessionHead, WorkerRow, World

PAGE: Final = 200
"""Sessions that are read at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """One session for people."""

    session: str
    agent: str
    status: str
    waits: str
    when: str


async def what_waits(
    world: World, heads: Sequence[SessionHead], clock: Clock
) -> Mapping[str, Sequence[Awaited]]:
    """By session, what its open turn waits for; of those only where nothing else is to be done."""
    found: dict[str, Sequence[Awaited]] = {}
    for head in heads:
        later = head.wake_at_s is not None and head.wake_at_s > clock.now()
        if head.turn_open and not head.waiting_inputs and (head.parked or later):
            session = Session(world, head.session, clock)
            try:
                found[head.session] = await awaited_by(session, await session.state())
            except OutlastError:
                continue  # one whose log cannot be read, or that is erased meanwhile, must not hide the others
    return found


def told(head: SessionHead, awaited: Sequence[Awaited]) -> dict[str, Any]:
    """A session for programs."""
    value: dict[str, Any] = msgspec.to_builtins(head)
    return {**value, "awaits": awaited}


async def pages(world: World, limit: int, *, only_open: bool) -> AsyncGenerator[list[SessionHead]]:
    """At most `limit` sessions, newest change first, as they are read; no page is empty."""
    left, after = limit, None
    while left > 0:
        page = await world.list(after=after, limit=min(PAGE, limit))
        heads = [head for head in page.sessions if head.turn_open or not only_open][:left]
        if heads:
            yield heads
        left, after = left - len(heads), page.next
        if after is None:
            return


def rows_of(
    heads: Sequence[SessionHead],
    workers: Sequence[WorkerRow],
    now_s: float,
    awaited: Mapping[str, Sequence[Awaited]],
) -> list[Row]:
    """`heads`, each with what it waits for."""
    alive = {row.worker for row in workers if row.deadline_s > now_s}
    return [
        Row(
            head.session,
            head.agent,
            f"{head.status} · priority {head.priority}" if head.priority else head.status,
            _waits(head, alive, now_s, awaited.get(head.session, ())),
            f"{age(now_s - head.updated_at_s)} ago",
        )
        for head in heads
    ]


def _waits(head: SessionHead, alive: set[str], now_s: float, awaited: Sequence[Awaited]) -> str:
    if head.worker is not None and head.worker in alive:
        return f"with {head.worker}" if head.turn_open or head.waiting_inputs else ""
    waiting = (
        f"{head.waiting_inputs} input{'s' if head.waiting_inputs > 1 else ''}" if head.waiting_inputs else ""
    )
    if awaited and not waiting:
        return brief(head.session, awaited)
    if head.parked and not waiting:
        return "waits for you: outlast show, cancel"
    if head.turn_open and not waiting and head.wake_at_s is not None and head.wake_at_s > now_s:
        return f"waits until {moment(head.wake_at_s)}"
    if head.turn_open and not head.parked:
        return "waits for a worker: outlast work"
    if not head.turn_open and not waiting and head.wake_at_s is not None and head.wake_at_s > now_s:
        return f"wakes at {moment(head.wake_at_s)}"
    return f"{waiting} waiting for a worker: outlast work" if waiting else ""


def columns(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as aligned lines."""
    facts = [(row.session, row.agent, row.status, row.when, row.waits) for row in rows]
    widths = [max((len(fact[at]) for fact in facts), default=0) for at in range(4)]
    for fact in facts:
        line = [text.ljust(width) for text, width in zip(fact[:4], widths, strict=True)]
        yield "   ".join([*line, fact[4]]).rstrip()
