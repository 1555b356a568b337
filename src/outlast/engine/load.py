"""Reads a session's log into its state: from the newest snapshot, or from the beginning."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from outlast.engine.batch import patiently
from outlast.errors import BlobBroken, LogBroken
from outlast.fold import SessionState, apply, records_of
from outlast.records import AnyRecord, Snapshot
from outlast.snapshots import adopt, whole
from outlast.world import Claim, World

PAGE: Final = 1000


async def load(world: World, claim: Claim) -> SessionState:
    """The state after the takeover commit of `claim`.

    Raises:
        LogBroken, FormatTooNew
    """
    return await load_state(world, claim.lease.session, claim.snapshot_seq, claim.seq)


async def load_state(
    world: World, session: str, snapshot_seq: int = 0, upto: int | None = None
) -> SessionState:
    """The state of a session, without holding it; after commit `upto`, if that is given."""
    state = SessionState(session=session)
    after = max(0, snapshot_seq - 1)
    state.seq = after
    while upto is None or state.seq < upto:
        limit = PAGE if upto is None else min(PAGE, upto - state.seq)
        page = await patiently(partial(world.commits, session, state.seq, limit))
        for commit in page:
            records = records_of(session, commit)
            if commit.header.snapshot and state.opened is None:
                await _begin(world, state, commit.header.seq, records)
            apply(state, commit.header, records)
        if len(page) < limit:
            break
    return state


async def _begin(world: World, state: SessionState, seq: int, records: Sequence[AnyRecord]) -> None:
    """Begin with the snapshot that a commit begins with."""
    record = records[0] if records else None
    if not isinstance(record, Snapshot):
        return  # the fold says what is wrong

    async def get_blobs(names: Sequence[str]) -> Mapping[str, bytes]:
        return await patiently(lambda: world.get_many(state.session, names))

    try:
        adopt(state, await whole(record, get_blobs))
    except (msgspec.MsgspecError, RecursionError, BlobBroken) as error:
        raise LogBroken(session=state.session, seq=seq, reason=f"its snapshot: {error}") from None
