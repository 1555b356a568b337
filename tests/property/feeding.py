"""A session that somebody writes, and what a watcher must have seen of it."""

from collections.abc import Sequence

from outlast.codec import encode_delta, encode_records
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyRecord,
    AttemptOpened,
    InputDropped,
    TurnOpened,
    TurnParked,
    TurnSettled,
)
from outlast.records.events import Event, LiveDelta
from outlast.records.payload import EMPTY
from outlast.world import Claim, Cursor, Delta, Header, Lease, Takeover, WorkerOffer, WorkerRow, World
from outlast.world.commit import make_commit


class Writer:
    """Holds a session and writes commits and deltas, as an engine does."""

    def __init__(self, world: World, session: str = "s") -> None:
        self.world = world
        self.session = session
        self.seq = 0
        self.deltas = 0
        self.width = 1
        """Of the newest commit."""
        self._lease = Lease(session, 0, "w")
        self._number = 0

    async def open(self) -> None:
        """Create the session, and claim it."""
        header = Header(1, 0, FORMAT, 1, turn_open=True)
        await self.world.create(
            self.session, make_commit(header, encode_records([TurnOpened(1, "nobody", EMPTY)])), agent="a"
        )
        self.seq = 1
        await self.claim()

    async def claim(self) -> None:
        """Take it over: the World counts the deltas."""
        liveness = self.world.open_liveness()
        liveness.renew(WorkerRow("w", "", 0.0), 600.0)
        liveness.close()
        await self.world.release(self._lease)
        offer = WorkerOffer("w", frozenset({"a"}), FORMAT, only=self.session)
        claim = await self.world.claim(offer, Takeover(encode_records([AttemptOpened("w")]), 1, PLAIN))
        assert isinstance(claim, Claim)
        self._lease, self.seq, self.deltas, self.width = claim.lease, claim.seq, 0, 1

    async def commit(self, events: int, hidden: int = 0) -> None:
        """Commit some records that are shown, and some that are not."""
        self._number += 1
        records = [TurnParked(1, "signal", {"number": self._number, "at": at}) for at in range(events)]
        dropped = [InputDropped(f"{self._number}-{at}", "nobody knows") for at in range(hidden)]
        await self.write([*dropped, *records])

    async def write(self, records: Sequence[AnyRecord]) -> None:
        """Commit these."""
        header = Header(
            self.seq + 1, self._lease.fence, FORMAT, len(records), sealed=self.deltas, turn_open=True
        )
        new = make_commit(header, encode_records(records))
        assert await self.world.commit_many([(self._lease, new)]) == [None]
        self.seq, self.deltas, self.width = self.seq + 1, 0, max(1, len(records))

    async def settle(self) -> None:
        """End the turn."""
        await self.write([TurnSettled(1, "done")])

    async def publish(self, count: int, text: str = "x") -> None:
        """Show some deltas."""
        shown = [Delta(encode_delta(LiveDelta(1, 1, "text", text, self.deltas + at))) for at in range(count)]
        await self.world.publish(self._lease, self.seq, self.deltas, shown)
        self.deltas += count

    async def drop(self, before: int) -> None:
        """Free the bytes of deltas."""
        await self.world.drop_deltas(self._lease, before)


def places(events: Sequence[Event]) -> list[tuple[Cursor, str]]:
    """What each event stands for; a gap for each delta that it says is gone."""
    found: list[tuple[Cursor, str]] = []
    for event in events:
        place = Cursor.parse(event.cursor)
        if event.kind == "gap":
            lost = event.facts["deltas"]
            found += [(Cursor(place.seq, place.index - back), "live") for back in reversed(range(lost))]
        else:
            found.append((place, "live" if event.kind == "call.text" else f"{event.kind} {event.facts}"))
    return found
