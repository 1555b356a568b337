"""What a reader of a session is shown next: commits and the deltas between them, put in order. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from outlast.world.commit import Commit, Delta, Gap, Item
from outlast.world.cursor import Cursor


@dataclass(slots=True)
class Place:
    """Where the stream stands: before delta `index` after commit `seq`, or before commit `seq` + 1.

    `width` is that of commit `seq`; 0 says that there are no deltas to be shown before the next commit.
    """

    seq: int
    width: int
    index: int


@dataclass(slots=True)
class Shown:
    """A delta that is stored, by the commit before it and its index."""

    seq: int
    index: int
    body: bytes


def place_behind(after: Cursor, events: int | None) -> Place:
    """Where reading goes on behind `after`, whose commit holds `events` events (None: there is no such commit)."""
    width = max(1, events or 0)
    if events is None or after.index < width - 1:
        # Commit `after.seq` itself comes first, or what is left of it; there are no deltas before it to be shown.
        return Place(max(1, after.seq) - 1, 0, 0)
    return Place(after.seq, width, after.index - width + 1)


def weave(commits: Iterator[Commit], deltas: Iterator[Shown], place: Place, after: Cursor) -> Iterator[Item]:
    """Put commits and deltas in order from `place` on.

    Deltas behind the last of `commits` are all shown: whoever reads in pieces leaves out those that do not count.
    """
    ahead = next(deltas, None)
    for commit in chain(commits, [None]):
        counts = None if commit is None else commit.header.sealed
        while ahead is not None and ahead.seq <= place.seq:
            counted = counts is None or ahead.index < counts
            if place.width and ahead.index >= place.index and counted:
                yield from _missing(place, ahead.index)
                yield Item(Cursor(place.seq, place.width + ahead.index), Delta(ahead.body))
                place.index = ahead.index + 1
            ahead = next(deltas, None)
        if commit is None:
            return
        if place.width:
            yield from _missing(place, commit.header.sealed)
        seq, width = commit.header.seq, commit.header.width
        yield Item(Cursor(seq, width - 1), commit, after.index + 1 if seq == after.seq else 0)
        place = Place(seq, width, 0)


def _missing(place: Place, until: int) -> Iterator[Item]:
    """The gap before delta `until`, if there is one."""
    if place.index < until:
        cursor = Cursor(place.seq, place.width + until - 1)
        yield Item(cursor, Gap(until - place.index), place.index)
        place.index = until
