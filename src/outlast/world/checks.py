"""What every World refuses in the same words before it writes anything."""

from collections.abc import Mapping
from typing import Final

from outlast.errors import BadPayload
from outlast.ids import check_session_id
from outlast.world.commit import Commit, Header
from outlast.world.inbox import Input

STATUS_LIMIT: Final = 1_000
"""Characters of a status."""
PRIORITY_LIMIT: Final = 100
"""Priorities reach from minus this to this."""


def check_texts(*texts: str) -> None:
    """Return if each of `texts` can be stored.

    Raises:
        BadPayload: one of them is no Unicode text.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            reason = "it is no Unicode text (it holds half of a surrogate pair)"
            raise BadPayload(what=repr(text[:60]), reason=reason) from error


def check_priority(priority: int | None) -> None:
    """Return if it is a priority, or None.

    Raises:
        BadPayload
    """
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if priority is not None and not (whole and -PRIORITY_LIMIT <= priority <= PRIORITY_LIMIT):
        reason = f"it is {priority!r}, not a whole number from {-PRIORITY_LIMIT} to {PRIORITY_LIMIT}"
        raise BadPayload(what="The priority", reason=reason)


def check_opening(
    session: str, first: Header, agent: str, placement: str, labels: Mapping[str, str], priority: int = 0
) -> None:
    """Return if `session` can be opened with a commit that has the header `first`.

    Raises:
        BadSessionId
        BadPayload: its number is not 1 or its fence not 0; one of the texts is no Unicode text; the priority is none.
    """
    check_session_id(session)
    check_priority(priority)
    if first.seq != 1 or first.fence != 0:
        raise BadPayload(what="The first commit", reason="its number must be 1 and its fence 0")
    check_texts(agent, placement, *labels, *labels.values())


def check_fork(
    session: str, first: Header, placement: str | None, labels: Mapping[str, str], priority: int = 0
) -> None:
    """Return if a fork `session` can begin with a commit that has the header `first`.

    Raises:
        BadSessionId
        BadPayload: nothing comes before it, it seals deltas or consumes something; one of the texts is no Unicode text;
            the priority is none.
    """
    check_session_id(session)
    check_priority(priority)
    if first.seq < 2 or first.sealed or first.consumes:
        reason = "its number must be 2 or more, and it can seal no deltas and consume nothing"
        raise BadPayload(what="The first commit of a fork", reason=reason)
    check_texts(placement or "", *labels, *labels.values())


def check_content(commit: Commit) -> None:
    """Return if the texts of `commit` can be stored.

    Raises:
        BadPayload: the status is too long, or one of them is no Unicode text.
    """
    header = commit.header
    check_texts(header.status, *header.consumes, *header.refs, *commit.blobs)
    if len(header.status) > STATUS_LIMIT:
        reason = f"it has {len(header.status)} characters, {STATUS_LIMIT} may stand there"
        raise BadPayload(what="The status", reason=reason)


def check_input(new: Input) -> None:
    """Return if the texts of `new` can be stored.

    Raises:
        BadPayload: one of them is no Unicode text, or its priority is none.
    """
    check_priority(new.priority)
    check_texts(new.id, new.digest, *new.refs, *new.blobs)


def parse_token(token: str | None) -> int | None:
    """Read the `next` of a page: the change number below which the next page begins.

    Raises:
        BadPayload: it is not the `next` of a page.
    """
    if token is None:
        return None
    if not (token.isascii() and token.isdigit() and len(token) <= 18):
        raise BadPayload(what="The page", reason=f"{token[:60]!r} is not the `next` of another page")
    return int(token)
