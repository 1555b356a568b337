"""A settled turn, out of its log."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio.lowlevel

from outlast.fold import records_of
from outlast.records import (
    EMPTY,
    AnyRecord,
    CallIntent,
    CallOutcome,
    CallRetracted,
    Forked,
    Payload,
    TurnOpened,
    TurnSettled,
    Usage,
)
from outlast.records.events import face
from outlast.timeline import AttemptBar, Timeline, TurnBar
from outlast.tracing import Settled, TurnIds
from outlast.unfolding import Unfolding
from outlast.world import Commit, Cursor, World

PAGE: Final = 100
BEFORE: Final = 20
"""Commits before the turn in which its first attempt is looked for: nearly always it is the one just before."""


@dataclass
class CallDetail:
    """What the picture of a call leaves out."""

    intent: CallIntent
    outcome: CallOutcome | None = None
    void: list[Usage | None] = field(default_factory=list["Usage | None"])
    """Of each of its retractions, in order; None: nothing was billed, or nobody knows."""


@dataclass
class Story:
    """A turn that is over: its picture, and what that leaves out."""

    settled: Settled
    bar: TurnBar
    traceparent: str = ""
    prompt: Payload = EMPTY
    result: Payload = EMPTY
    calls: dict[int, CallDetail] = field(default_factory=dict[int, CallDetail])
    forked: Forked | None = None
    """It was open when the session was forked: what came before is its source's to tell."""

    @property
    def ids(self) -> TurnIds:
        settled = self.settled
        folder = settled.opened.folder
        return TurnIds(settled.tenant, folder, settled.session, settled.due.turn, self.traceparent)

    @property
    def from_s(self) -> float:
        """When it began, for this session."""
        return self.bar.opened_s if self.forked is None else self.forked.at_s


class _Reader:
    """Takes in the records of one turn, and of some commits before it."""

    def __init__(self, settled: Settled) -> None:
        self._turn = settled.due.turn
        self._unfolding: Unfolding | None = None
        self._newest: AttemptBar | None = None
        self.story = Story(settled, TurnBar(self._turn))
        self.over = False

    def take(self, commit: Commit, records: Sequence[AnyRecord]) -> None:
        header = commit.header
        for at, record in enumerate(records):
            event = face(record, str(Cursor(header.seq, at)), header.fence)
            if isinstance(record, TurnOpened) and record.turn == self._turn:
                self._begin(record, header.fence)
            elif self._unfolding is None:
                if event.kind == "attempt.opened":
                    worker = str(event.facts.get("worker", ""))
                    self._newest = AttemptBar(header.fence, worker, event.facts.get("versions", {}))
                continue
            if self._unfolding is not None and not self.over:
                self._unfolding.apply(event)
                self._note(record)
                self.over = isinstance(record, TurnSettled) and record.turn == self._turn

    def _begin(self, record: TurnOpened, fence: int) -> None:
        found = self._newest
        first = found if found is not None and found.attempt == fence else AttemptBar(fence)
        self._unfolding = Unfolding(Timeline(attempt=first), details=None)
        self.story.prompt, self.story.traceparent = record.prompt, record.traceparent

    def _note(self, record: AnyRecord) -> None:
        calls = self.story.calls
        match record:
            case CallIntent():
                calls[record.call] = CallDetail(record)
            case CallOutcome() if record.call in calls:
                calls[record.call].outcome = record
            case CallRetracted() if record.call in calls:
                calls[record.call].void.append(record.usage)
            case Forked():
                self.story.forked, self.story.traceparent = record, ""
            case TurnSettled() if record.turn == self._turn:
                self.story.result = record.result
            case _:
                pass

    def end(self) -> Story:
        assert self._unfolding is not None
        found = self._unfolding.timeline().find(self._turn)
        assert found is not None
        self.story.bar = found
        return self.story


def story_of(settled: Settled, commits: Iterable[Commit]) -> Story | None:
    """The turn as these commits tell it, which begin before it; None if it is not over in them.

    Raises:
        LogBroken, FormatTooNew
    """
    reader = _Reader(settled)
    for commit in commits:
        reader.take(commit, records_of(settled.session, commit))
        if reader.over:
            return reader.end()
    return None


async def read_story(world: World, settled: Settled) -> Story | None:
    """The turn as its log tells it; None if it is not there.

    Raises:
        LogBroken, FormatTooNew, SessionErased, WorldUnavailable
    """
    reader = _Reader(settled)
    async for commit in _commits(world, settled):
        reader.take(commit, records_of(settled.session, commit))
        if reader.over:
            return reader.end()
    return None


async def _commits(world: World, settled: Settled) -> AsyncGenerator[Commit]:
    after = max(0, settled.due.since - BEFORE)
    while page := await world.commits(settled.session, after, PAGE):
        for commit in page:
            yield commit
        after = page[-1].header.seq
        await anyio.lowlevel.checkpoint()  # a long turn must not keep others waiting
