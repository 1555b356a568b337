"""Where a moment stands in a line of a terminal: at one scale while somebody works, cut short where nobody does."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

LONG_S: Final = 2.0
LONG_PART: Final = 0.08
"""A gap is cut when it is longer than so many seconds, and than this part of the time that is worked."""
CUT: Final = 5
"""Columns of a cut: how long it was stands in them."""
PER_CUT: Final = 8
"""Columns of the line for each cut at most: of more gaps the longest are cut."""

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of time, and the columns that it takes up."""

    began_s: float
    ended_s: float
    first: int
    columns: int
    cut: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """Columns of moments."""

    parts: Sequence[Part]

    def column(self, at_s: float) -> int:
        """The column of a moment; of one outside, the nearest end."""
        part = self.parts[
            min(len(self.parts) - 1, bisect_left(self.parts, at_s, key=lambda one: one.ended_s))
        ]
        length_s = part.ended_s - part.began_s
        share = (at_s - part.began_s) / length_s if length_s > 0 else 0.0
        return part.first + max(0, min(part.columns - 1, int(share * part.columns)))

    @property
    def cuts(self) -> Sequence[Part]:
        """What is cut short."""
        return [part for part in self.parts if part.cut]


def axis_of(busy: Iterable[Span], began_s: float, ended_s: float, columns: int) -> Axis:
    """The axis from `began_s` to `ended_s` in so many columns; something ran in each span of `busy`."""
    work = _merged([(began_s, began_s), *busy, (ended_s, ended_s)], began_s, ended_s)
    active_s = sum(ended - began for began, ended in work)
    limit_s = max(LONG_S, active_s * LONG_PART)
    gaps = sorted(((right[0] - left[1], left[1]) for left, right in pairwise(work)), reverse=True)
    cut = {left_s for length_s, left_s in gaps[: max(1, columns // PER_CUT)] if length_s > limit_s}
    stretches: list[Span] = []
    for began, ended in work:
        if stretches and stretches[-1][1] not in cut:
            stretches[-1] = (stretches[-1][0], ended)
        else:
            stretches.append((began, ended))
    return Axis(_laid(stretches, columns))


def _merged(spans: list[Span], began_s: float, ended_s: float) -> list[Span]:
    found: list[Span] = []
    for began, ended in sorted(spans):
        first, last = max(began, began_s), min(max(began, ended), ended_s)
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, max(first, last)))
    return found


def _laid(stretches: Sequence[Span], columns: int) -> list[Part]:
    """Each stretch as wide as it is long, one column at least, with the cuts between them."""
    cuts = len(stretches) - 1
    left = max(len(stretches), columns - cuts * CUT)
    whole_s = sum(ended - began for began, ended in stretches) or 1.0
    spare = left - len(stretches)
    parts: list[Part] = []
    first, run_s, given = 0, 0.0, 0
    for began, ended in stretches:
        if parts:
            parts.append(Part(parts[-1].ended_s, began, first, CUT, cut=True))
            first += CUT
        run_s += ended - began
        wide = 1 + round(spare * run_s / whole_s) - given
        given += wide - 1
        parts.append(Part(began, ended, first, wide, cut=False))
        first += wide
    return parts
