"""Sessions as an editor lists them."""

from datetime import UTC, datetime
from typing import Final

from acp import schema

from outlast.cli.run import DIRECTORY
from outlast.cli.text import short
from outlast.fold import records_of
from outlast.records import TurnOpened
from outlast.session import Session
from outlast.world import SessionHead, World

_FIRST: Final = 5
"""Commits in which the first prompt is looked for."""


async def info_of(world: World, head: SessionHead) -> schema.SessionInfo:
    """A session that was begun in a directory, as an editor lists it: called as its first prompt begins."""
    changed = datetime.fromtimestamp(head.updated_at_s, UTC).isoformat()
    return schema.SessionInfo(
        session_id=head.session,
        cwd=head.labels[DIRECTORY],
        title=await _title(world, head.session) or head.session,
        updated_at=changed,
        field_meta={"outlast": {"status": head.status}},
    )


async def _title(world: World, name: str) -> str:
    session = await Session.find(world, name)
    for commit in await world.commits(name, 0, _FIRST):
        for record in records_of(name, commit):
            if isinstance(record, TurnOpened):
                return short(str(await session.value(record.prompt)), 80)
    return ""
