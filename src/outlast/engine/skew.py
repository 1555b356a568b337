"""Two clocks: a session is woken by the World's, and what it does then is judged by its worker's.

Where the worker's is behind, a wake time that has passed in the World would not have come: the session would be given
back, be ready at once, and be claimed again, for as long as the clocks differ.
"""

from functools import partial

from outlast.clock import Clock, ClockAhead
from outlast.engine.batch import patiently
from outlast.state import SessionState
from outlast.world import World


async def not_behind(world: World, clock: Clock, state: SessionState) -> Clock:
    """The clock by which a session that was just claimed is judged: never behind the World's, at its takeover.

    Only one that knows of a time to come is looked at, so that no other pays for a round trip.
    """
    if not any(time_s > clock.now() for time_s in _times(state)):
        return clock
    head = await patiently(partial(world.get, state.session))
    behind_s = head.updated_at_s - clock.now()
    return ClockAhead(clock, behind_s) if behind_s > 0 else clock


def _times(state: SessionState) -> list[float]:
    """When a session may have something to do by itself."""
    waits = [] if state.turn is None else state.turn.open_calls()
    return [
        *(one.at_s for one in state.untold),
        *(one.due_s for one in state.schedules.values()),
        *(call.intent.until_s for call in waits),
    ]
