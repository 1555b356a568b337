"""Removing a session: the tombstone at once, the rest in pieces that hold the write lock briefly."""

from typing import Final

from outlast.errors import SessionUnknown
from outlast.world.hints import key
from outlast.worlds.sqlite.statements import statements
from outlast.worlds.sqlite.transaction import ALIVE, Row, Transaction

SQL: Final = statements(__file__)
PIECE: Final = 200
DEAD: Final = 2


def entomb(transaction: Transaction, tenant: str, session: str) -> Row | None:
    """Put up the tombstone; returns the session while there is something to remove.

    Raises:
        SessionUnknown
    """
    row = transaction.find(tenant, session)
    if row is None:
        raise SessionUnknown(session=session, world=transaction.world)
    if row.state == ALIVE:
        transaction.run(SQL["entomb"], (row.pk,))
        transaction.told.add(key(tenant, session))
    return None if row.state == DEAD else row


def erase_commits(transaction: Transaction, row: Row, first: int) -> int | None:
    """Remove a piece of the log from commit `first`; returns where the next piece begins."""
    piece = (row.at(first - 1), row.at(min(first + PIECE - 1, row.seq)))
    transaction.run(SQL["erase_commits"], piece)
    transaction.run(SQL["erase_deltas"], piece)
    return first + PIECE if first + PIECE <= row.seq else None


def erase_blobs(transaction: Transaction, row: Row) -> bool:
    """Remove a piece of its blobs, those that nobody else names; returns whether there are more."""
    names = transaction.rows(SQL["some_blobs"], (row.pk, PIECE))
    for (blob,) in names:
        transaction.run(SQL["unname"], (row.pk, blob))
        transaction.run(SQL["erase_blob"], (blob,))
    return len(names) == PIECE


def bury(transaction: Transaction, row: Row) -> None:
    """Remove what is left but the tombstone."""
    transaction.run(SQL["erase_inputs"], (row.pk,))
    transaction.run(SQL["erase_labels"], (row.pk,))
    transaction.run(SQL["buried"], (row.pk,))
