"""What is read of a session apart from its inbox and its stream."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

import msgspec

from outlast.errors import BlobUnknown
from outlast.world import Commit, Header, Page, SessionHead, Spent, Stored
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import SHIFT, Query

SQL: Final = statements(__file__)
COMMITS: Final = SQL["commits"]
NEWEST: Final = 2**60


def get(query: Query, tenant: str, session: str) -> SessionHead:
    """See `Log.get`."""
    return _head(query, query.get(tenant, session).pk)


def _head(query: Query, pk: int) -> SessionHead:
    [found] = query.rows(SQL["head"], (pk,))
    session, agent, placement, seq, fence, newest, snapshot_seq, turn_open, parked, wake_at_s = found[:10]
    status, worker, waiting, created_at_s, updated_at_s, priority = found[10:16]
    return SessionHead(
        session=session,
        agent=agent,
        placement=placement,
        seq=seq,
        fence=fence,
        format=newest,
        snapshot_seq=snapshot_seq,
        turn_open=bool(turn_open),
        parked=bool(parked),
        wake_at_s=wake_at_s,
        status=status,
        worker=worker,
        waiting_inputs=waiting,
        created_at_s=created_at_s,
        updated_at_s=updated_at_s,
        labels=dict(query.rows(SQL["labels"], (pk,))),
        priority=priority,
    )


def page(query: Query, tenant: str, before: int | None, limit: int, labels: Mapping[str, str]) -> Page:
    """See `Log.list`; `before` is the change number below which the page begins."""
    wanted = msgspec.json.encode(labels).decode()
    found = query.rows(SQL["page"], (tenant, NEWEST if before is None else before, wanted, limit + 1))
    more = len(found) > limit
    return Page([_head(query, pk) for pk, _ in found[:limit]], str(found[limit - 1][1]) if more else None)


def commits(query: Query, tenant: str, session: str, after: int, limit: int) -> list[Commit]:
    """See `Log.commits`."""
    row = query.get(tenant, session)
    return list(commitsbetween(query, row.at(max(0, after)), row.at(row.seq), limit))


def commitsbetween(query: Query, above: int, last: int, limit: int = -1) -> Generator[Commit]:
    """Commits by their keys, as they are read."""
    for found in query.run(COMMITS, (above, last, limit)):
        yield _commit(*found)


def _commit(  # noqa: PLR0913, PLR0917 the columns of a row
    at: int,
    fence: int,
    newest: int,
    events: int,
    sealed: int,
    flags: int,
    digest: str,
    wake_at_s: float | None,
    status: str,
    consumes: str | None,
    refs: str | None,
    body: bytes,
) -> Commit:
    header = Header(
        seq=at & (1 << SHIFT) - 1,
        fence=fence,
        format=newest,
        events=events,
        digest=digest,
        sealed=sealed,
        consumes=_names(consumes),
        refs=_names(refs),
        turn_open=bool(flags & 1),
        wake_at_s=wake_at_s,
        parked=bool(flags & 2),
        status=status,
        snapshot=bool(flags & 4),
        release=bool(flags & 8),
    )
    return Commit(header, body)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(text, type=list[str])) if text else ()


def get_many(query: Query, tenant: str, session: str, hashes: Sequence[str]) -> dict[str, bytes]:
    """See `Blobs.get_many`."""
    row = query.get(tenant, session)
    found: dict[str, bytes] = {}
    for name in hashes:
        there: tuple[Any, ...] | None = query.one(SQL["blob"], (row.tenant, name, row.pk))
        if there is None:
            raise BlobUnknown(session=session, blob=name, world=query.world)
        found[name] = there[0]
    return found


def dying(query: Query) -> list[tuple[str, str]]:
    """Tenant and id of sessions whose erasing was cut short."""
    return [(tenant, session) for tenant, session in query.rows(SQL["dying"])]


def spent(query: Query, tenant: str, first_day: int) -> list[Spent]:
    """See `Log.spent`."""
    return [Spent(*found) for found in query.rows(SQL["spent"], (tenant, first_day))]


def stored(query: Query, tenant: str, session: str) -> Stored:
    """See `Log.stored`."""
    row = query.get(tenant, session)
    found: tuple[Any, ...] | None = query.one(SQL["stored"], (row.pk << SHIFT, (row.pk + 1) << SHIFT, row.pk))
    assert found is not None
    return Stored(*found)
