"""In which order ready sessions are claimed: what Worlds that keep the line themselves have in common.

`ready_at` is one number that says from when a session is ready, were it free, and where it stands among the others:

* below zero it stands *in line*: it is ready at once, and the place is the number of the change that put it there. No
  clock takes part in that order.
* otherwise it sleeps, and the number is its wake time; once that has passed it is *woken*.

Whoever stands in line comes before the woken and priorities come before both, so either could keep others from ever
being claimed. Therefore every so many claims of an agent go against it.
"""

from typing import Final

from outlast.world.commit import Header

LINE: Final = float(2**50)
"""A session in line stands at `change - LINE`: before every wake time, in the order in which they became ready."""
EIGHTH: Final = 8
THIRD: Final = 3


def by_priority(claims: int) -> bool:
    """Whether priorities count in the claim after `claims` others of an agent: in all but each eighth."""
    return claims % EIGHTH != EIGHTH - 1


def woken_first(claims: int) -> bool:
    """Whether the woken come before the line in the claim after `claims` others of an agent: in each third."""
    return claims % THIRD == THIRD - 1


def ready_at(header: Header, waiting: int, stood: float | None, change: int) -> float | None:
    """When a session is ready, were it free: by its newest header, and the place in line that it had.

    Args:
        waiting: how many inputs are not consumed.
        stood: what it was before; None if it lost its place, having been given up.
        change: the number of this change.
    """
    if waiting or (header.turn_open and not header.parked and header.wake_at_s is None):
        return stood if stood is not None and stood < 0 else change - LINE
    return header.wake_at_s


def precedence(place: float, priority: int, claims: int) -> tuple[int, bool, float]:
    """What the sessions of one agent that are ready are sorted by, the first to be claimed first.

    Args:
        place: its `ready_at`.
        claims: how many of the agent's sessions the worker has claimed before.
    """
    woken = place >= 0
    return -priority if by_priority(claims) else 0, woken != woken_first(claims), place
