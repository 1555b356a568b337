"""The inbox."""

from typing import Final

import msgspec

from outlast.errors import InputConflict
from outlast.world import Input
from outlast.world.hints import inbox_key, key, ready_key
from outlast.world.line import LINE
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import Query, Row, Transaction
from outlast.worlds.sqlite.writes import check_blobs, keep_blobs, move_route, texts

SQL: Final = statements(__file__)


def put_input(transaction: Transaction, tenant: str, session: str, new: Input) -> Input:
    """See `Inbox.put_input`."""
    row = transaction.get(tenant, session)
    there = _find(transaction, row, new.id)
    if there is not None and there.digest != new.digest:
        raise InputConflict(session=session, input=new.id)
    if there is None:
        check_blobs(transaction, row.tenant, session, new.refs, new.blobs)
        keep_blobs(transaction, row, new.refs, new.blobs)
        arrival = row.arrivals + 1
        transaction.run(SQL["add"], (row.pk, new.id, arrival, new.digest, texts(new.refs), new.body))
        change = transaction.next_change(tenant)
        in_line = row.ready_at is not None and row.ready_at < 0
        ready = row.ready_at if in_line else change - LINE
        route = row.route if new.priority is None else move_route(transaction, row, priority=new.priority)
        transaction.run(SQL["arrived"], (arrival, ready, route, change, transaction.now_s, row.pk))
        there = Input(new.id, new.digest, new.body, new.refs, arrival=arrival)
    transaction.told |= {key(tenant, session), inbox_key(tenant, session), ready_key(tenant)}
    return there


def find_input(query: Query, tenant: str, session: str, input_id: str) -> Input | None:
    """See `Inbox.find_input`."""
    return _find(query, query.get(tenant, session), input_id)


def waiting_inputs(query: Query, tenant: str, session: str) -> list[Input]:
    """See `Inbox.inputs`."""
    row = query.get(tenant, session)
    return [_input(*found) for found in query.rows(SQL["waiting"], (row.pk,))]


def _find(query: Query, row: Row, input_id: str) -> Input | None:
    found = query.one(SQL["find"], (row.pk, input_id))
    return _input(input_id, *found) if found else None


def _input(
    input_id: str, arrival: int, digest: str, consumed_by: int | None, refs: str | None, body: bytes
) -> Input:  # fmt: skip
    names = tuple(msgspec.json.decode(refs, type=list[str])) if refs else ()
    return Input(input_id, digest, body, names, arrival=arrival, consumed_by=consumed_by)
