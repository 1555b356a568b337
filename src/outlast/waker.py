"""The port that starts a worker where none is resident: a hint, as every hint is.

Nothing depends on a waker: it may be slow, fail, or wake in vain. What it missed a scheduled sweep finds, which is the
guarantee (`outlast work --once` from a timer, `outlast wake --listen`, or a call of the route of `outlast.asgi` without
a session). A hint that is lost costs the time to the next sweep, and nothing else.

Wakers stand in `outlast.wakers`; `outlast.opening.make_waker` makes one from its URL.
"""

import logging
from typing import Final, Protocol

import msgspec

TIMEOUT_S: Final = 10.0
"""For each step of a hint's way: long enough for a machine far away, since nobody waits for it but its sender."""


class Waker(Protocol):
    """Starts a worker for a session that is ready, somewhere."""

    async def wake(self, tenant: str, session: str) -> None:
        """Ask that somebody advance this session soon; of an empty name, whatever is ready.

        Returns within seconds; raises nothing: what went wrong is logged.
        """
        ...


class Hint(msgspec.Struct, frozen=True):
    """What a waker sends, as JSON, and whoever starts workers reads."""

    session: str = ""
    tenant: str = "default"


def hint_of(tenant: str, session: str) -> str:
    """The JSON of a hint."""
    return msgspec.json.encode(Hint(session, tenant)).decode()


def read_hint(text: str | bytes) -> Hint | None:
    """The hint that `text` is; None if it is none."""
    try:
        return msgspec.json.decode(text, type=Hint)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def said_in_vain(log: logging.Logger, session: str, reason: str) -> None:
    """Log that a hint was lost."""
    log.warning(
        "nobody could be woken for %s: %s", f"session {session}" if session else "what is ready", reason
    )
