"""Sessions that begin with the past of another: its commits are copied, the bytes of blobs are not.

A fork is one transaction in the writer's thread, so that nobody sees half of one and a crash leaves nothing of it.
"""

from typing import Final

from outlast.errors import CommitUnknown, Fenced, SessionErased
from outlast.world.beginning import Fork, Opening
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import ALIVE, SHIFT, Row, Transaction
from outlast.worlds.sqlite.writes import DIGEST, check_new, land, open_row

SQL: Final = statements(__file__)


def fork(transaction: Transaction, tenant: str, new: Fork) -> bool:
    """See `Log.fork`."""
    there = transaction.find(tenant, new.session)
    if there is not None:
        _check_same(transaction, there, transaction.find(tenant, new.source), new)
        return False
    source = transaction.get(tenant, new.source)
    if new.at > source.seq:
        raise CommitUnknown(session=new.source, seq=new.at, newest=source.seq)
    past = (source.at(0), source.at(new.at))
    [[fence, newest, snapshot]] = transaction.rows(SQL["past"], past)
    if new.first.header.fence != fence:
        raise Fenced(session=new.session, current=fence, fence=new.first.header.fence)
    [[agent, placement]] = transaction.rows(SQL["route_of"], (source.route,))
    placement = placement if new.placement is None else new.placement
    opening = Opening(new.session, new.first, agent, placement, new.labels, new.priority)
    check_new(transaction, source.tenant, new.at, opening)
    row = open_row(transaction, tenant, opening, newest)
    transaction.run(SQL["copy_commits"], (*past, source.at(0), row.at(0)))
    transaction.run(SQL["copy_names"], (*past, row.pk, source.tenant))
    transaction.run(SQL["copy_inputs"], (source.pk, new.at, row.pk))
    seen = snapshot & (1 << SHIFT) - 1 if snapshot else 0
    transaction.run(SQL["shared"], (new.at, fence, newest, seen, row.pk))
    land(transaction, tenant, new.session, transaction.get(tenant, new.session), new.first)
    return True


def _check_same(transaction: Transaction, there: Row, source: Row | None, new: Fork) -> None:
    """Return if the very same fork stands already.

    Raises:
        SessionExists, SessionErased
    """
    if there.state != ALIVE:
        raise SessionErased(session=new.session)
    alive = source if source is not None and source.state == ALIVE else None
    [[_, placement]] = transaction.rows(SQL["route_of"], (there.route,))
    new.check_same(
        itself=source is not None and source.pk == there.pk,
        digest=_digest(transaction, there, new.at + 1),
        same_past=alive is None or _digest(transaction, alive, new.at) == _digest(transaction, there, new.at),
        placement=placement,
        labels=dict(transaction.rows(SQL["labels"], (there.pk,))),
    )


def _digest(transaction: Transaction, row: Row, seq: int) -> str:
    found = transaction.one(DIGEST, (row.at(seq),)) if seq <= row.seq else None
    return found[0] if found else ""
