"""Erases a session for good, and with it what outlast has kept of it on this machine."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from outlast.beneath import remove_tree
from outlast.clock import Clock
from outlast.engine.children import forsake
from outlast.engine.places import HOMES, WORKSPACES, made_for
from outlast.errors import FormatTooNew, InputConflict, LogBroken, NotFound, OutlastError, Refused
from outlast.fold import records_of
from outlast.records import SessionOpened
from outlast.session import Session
from outlast.sites import forget_site
from outlast.world import SessionHead, World


def check_may_be_erased(head: SessionHead, *, force: bool) -> None:
    """Raises Refused: its turn is open, and it was not to be erased all the same."""
    if head.turn_open and not force:
        hint = f"End it first (outlast cancel {head.session}), or erase it all the same with --force."
        raise Refused(detail=f"The turn of {head.session} is open. {hint}")


async def erase(world: World, session: str, data: Path, clock: Clock) -> Sequence[str]:
    """Erase a session: log, blobs, and its directories on this machine. Returns what could not be removed, and why.

    The id is never used again. Who spawned it is told. The directory that an agent worked in is its owner's and stays.

    Raises:
        SessionUnknown, SessionErased, WorldUnavailable
    """
    left: list[str] = []
    opened = await _opening(world, data, session, left)  # the log tells; it goes first
    if opened is None:
        await world.erase(session)
        return left
    made = made_for(data, session, opened)
    with suppress(NotFound, Refused, InputConflict):  # its parent is gone, or knows how it ended
        await forsake(world, opened, clock.now())
    await world.erase(session)
    left += _remove(made)
    try:
        await forget_site(opened, session, data, world.tenant)
    except OutlastError as error:
        left.append(f"what the workspace of {session} kept here stays: {error}")
    return left


async def _opening(world: World, data: Path, session: str, left: list[str]) -> SessionOpened | None:
    """How a session was opened: it tells which directories outlast made for it, and who spawned it."""
    for commit in await world.commits(session, 0, 1):
        try:
            records_of(session, commit)
            return (
                await (await Session.find(world, session)).state()
            ).opened  # of a fork, with what is its own
        except (LogBroken, FormatTooNew) as error:
            told = f"whatever was made for {session} in {data / HOMES} and {data / WORKSPACES} stays"
            left.append(f"{told}, since its log does not tell: {error}")
    return None


def _remove(directories: Sequence[Path]) -> list[str]:
    left: list[str] = []
    for path in directories:
        with suppress(OSError):
            if not path.is_symlink():  # what is behind a link is not ours to remove
                remove_tree(path)
        if path.is_symlink() or path.exists():
            left.append(f"{path} could not be removed whole. Remove it yourself.")
    return left
