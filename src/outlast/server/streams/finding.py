"""Which turn somebody is to be shown, and where in the log it begins."""

from typing import Final

from outlast.codec import read_input
from outlast.fold import records_of
from outlast.records import Prompt
from outlast.records.events import face
from outlast.records.kinds import TurnOpened
from outlast.server.paging import opening_of
from outlast.server.streams.talk import Place
from outlast.session import Session
from outlast.world import Cursor, World

LATELY_S: Final = 300.0
"""A turn that ended so long ago at most is still shown whole to one who comes back without saying where it was."""
_PAGE: Final = 500


async def place_of(session: Session, prompt: str) -> Place:
    """Where the turn of a prompt is to be looked for, which may not have been opened yet.

    Raises:
        SessionUnknown, SessionErased, WorldUnavailable
    """
    head = await session.head()  # read first: what is not consumed after it lands behind it
    found = await session.world.find_input(session.id, prompt)
    before = head.seq
    if found is not None and found.consumed_by is not None:
        before = found.consumed_by - 1
    elif found is None:  # of a schedule; or it came so long ago that the inbox has forgotten it
        turn = (await session.state()).turn
        opened = (
            None if turn is None or turn.input != prompt else await opening_of(session.world, head, turn.turn)
        )
        before = head.seq if opened is None else opened.seq - 1
    return Place(session.world.tenant, session.id, prompt, Cursor.behind(before))


async def active(session: Session, now_s: float) -> str | None:
    """Id of the prompt whose turn is open, or the next to be, or was settled lately; None: there is none.

    Raises:
        SessionUnknown, SessionErased, WorldUnavailable
    """
    inbox = await session.world.inputs(session.id)  # read first: what is consumed meanwhile is in the state
    state = await session.state()
    if state.turn is not None:
        return state.turn.input
    if state.queue:
        return state.queue[0].input
    for waiting in inbox:
        if isinstance(read_input(waiting.body), Prompt):
            return waiting.id
    last = state.last
    if last is None or now_s - last.at_s > LATELY_S:
        return None
    opened = await opening_of(session.world, await session.head(), last.turn)
    if opened is None:
        return None
    [commit] = await session.world.commits(session.id, opened.seq - 1, 1)
    return next(record.input for record in records_of(session.id, commit) if isinstance(record, TurnOpened))


async def newest_shown(world: World, session: str) -> int:
    """Number of a commit that shows something, as new as can be told cheaply: who has read so far has caught up."""
    head = await world.get(session)
    for commit in reversed(await world.commits(session, max(0, head.seq - _PAGE), _PAGE)):
        faces = [face(record, "", 0) for record in records_of(session, commit)]
        if any(one.kind != "hidden" for one in faces):
            return commit.header.seq
    return 0
