"""Reads a session's log into its state: from the newest snapshot, or from the beginning."""

from functools import partial
from typing import Final

import msgspec

from outlast.codec import unsqueeze
from outlast.engine.batch import patiently
from outlast.fold import SessionState, apply, records_of
from outlast.records import AnyRecord, Payload, Snapshot
from outlast.world import Claim, Commit, World

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
    """The state of a session, without holding it."""
    state = SessionState(session=session)
    after = max(0, snapshot_seq - 1)
    state.seq = after
    while upto is None or state.seq < upto:
        page = await patiently(partial(world.commits, session, state.seq, PAGE))
        for commit in page:
            apply(state, commit.header, await _records(world, session, commit, needed=state.opened is None))
        if len(page) < PAGE:
            break
    return state


async def _records(world: World, session: str, commit: Commit, *, needed: bool) -> list[AnyRecord]:
    """The records of a commit, a snapshot among them with its state in it if that is `needed`."""
    records = records_of(session, commit)
    if commit.header.snapshot and needed:
        records = [await _unfold(world, session, record) for record in records]
    return records


async def _unfold(world: World, session: str, record: AnyRecord) -> AnyRecord:
    """A snapshot whose state is behind a blob, with the state in it."""
    if not (isinstance(record, Snapshot) and record.state.ref):
        return record
    found = await patiently(partial(world.get_many, session, [record.state.ref]))
    return Snapshot(Payload(json=msgspec.Raw(unsqueeze(found[record.state.ref]))))
