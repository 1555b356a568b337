"""Plain commits in few statements: many together in three, instead of three for each; a lone one in two.

Each time SQLite works, its thread gives the interpreter's lock away and must get it back, which is what commits of many
sessions cost most. So those that change nothing but their session's log, and where it stands, are written together; all
others one by one, as are these if anything is unusual about them. For a lone commit, of a session that works by itself,
what is asked and what is changed are one statement: it finds no row where the commit may not land as it is.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from outlast.errors import BadPayload
from outlast.world import Commit, Lease
from outlast.world.checks import check_content
from outlast.world.hints import key
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import ALIVE, SHIFT, Transaction

SQL: Final = statements(__file__)
FIND: Final = SQL["find"]
ADD: Final = SQL["add"]
ADVANCE: Final = SQL["advance"]
ADVANCE_ONE: Final = SQL["advance_one"]
ADD_ONE: Final = SQL["add_one"]


class _Stand(NamedTuple):
    """How a session stands. The order is that of `find`."""

    session: str
    pk: int
    state: int
    seq: int
    fence: int
    format: int
    worker: str | None
    in_line: int | None


_stands: Final = msgspec.json.Decoder(list[_Stand])
_encoder: Final = msgspec.json.Encoder()


def land_together(
    transaction: Transaction, tenant: str, commits: Sequence[tuple[Lease, Commit]]
) -> frozenset[int]:
    """Write those of `commits` that are plain and may land; returns their places. Nothing is done about the others."""
    plain: dict[str, int] = {}
    for place, (lease, new) in enumerate(commits):
        if lease.session not in plain and _is_plain(new):
            plain[lease.session] = place
    if len(plain) == 1:
        [place] = plain.values()
        return frozenset({place} if _land_one(transaction, tenant, *commits[place]) else ())
    if not plain:
        return frozenset()
    [[found]] = transaction.rows(FIND, (tenant, _encoder.encode(list(plain)).decode()))
    stands = sorted((plain[stand.session], stand) for stand in _stands.decode(found))
    landing = {
        place: (stand, commits[place][1]) for place, stand in stands if _may_land(stand, *commits[place])
    }
    if landing:
        _write(transaction, tenant, list(landing.values()))
    return frozenset(landing)


def _is_plain(new: Commit) -> bool:
    """It is one of the midst of a turn: it changes nothing of when its session is ready, and names nothing outside."""
    header = new.header
    calm = header.turn_open and not header.parked and header.wake_at_s is None
    more = header.snapshot or header.release or header.consumes or header.refs or new.blobs or new.spent
    if more or not calm or "\0" in header.status:  # JSON of SQLite's ends at a NUL
        return False
    try:
        check_content(new)
    except BadPayload:
        return False
    return True


def _land_one(transaction: Transaction, tenant: str, lease: Lease, new: Commit) -> bool:
    """Write a plain commit if it may land, all of `_may_land` asked by the statement; returns whether it did."""
    header = new.header
    if lease.fence != header.fence:
        return False
    status, known = header.status, transaction.newest_change(tenant)
    who = (tenant, lease.session, header.fence, lease.worker, header.format)
    advanced = transaction.one(ADVANCE_ONE, (header.seq, status, known, transaction.now_s, *who))
    if advanced is None:
        return False
    pk, change = advanced
    transaction.changed(tenant, change)
    facts = (header.fence, header.format, header.events, header.sealed, header.digest, status, new.body)
    transaction.run(ADD_ONE, (pk << SHIFT | header.seq, *facts))
    transaction.told.add(key(tenant, lease.session))
    return True


def _may_land(stand: _Stand, lease: Lease, new: Commit) -> bool:
    header = new.header
    ours = stand.fence == lease.fence == header.fence and stand.worker == lease.worker
    same = header.format <= stand.format and bool(stand.in_line)
    return stand.state == ALIVE and ours and same and header.seq == stand.seq + 1


def _write(transaction: Transaction, tenant: str, landing: Sequence[tuple[_Stand, Commit]]) -> None:
    rows: list[tuple[int | str, ...]] = []
    advances: list[tuple[int | str, ...]] = []
    begin = 1  # of substr
    for stand, new in landing:
        header, size = new.header, len(new.body)
        at = stand.pk << SHIFT | header.seq
        facts = (header.fence, header.format, header.events, header.sealed, header.digest, header.status)
        rows.append((at, *facts, begin, size))
        advances.append((stand.pk, header.seq, header.status, transaction.next_change(tenant)))
        begin += size
        transaction.told.add(key(tenant, stand.session))
    transaction.run(ADD, (_encoder.encode(rows).decode(), b"".join([new.body for _, new in landing])))
    transaction.run(ADVANCE, (_encoder.encode(advances).decode(), transaction.now_s))
