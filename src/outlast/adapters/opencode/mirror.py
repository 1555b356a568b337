"""The session's events in the log: taken from OpenCode before each model request, each tool, and at the end."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from outlast.adapter import Attempt
from outlast.adapters.opencode.client import Client
from outlast.adapters.opencode.events import as_line, path_of
from outlast.adapters.shapes import Json, as_object
from outlast.errors import HarnessError


class Mirror:
    """Follows the event log of one process.

    Args:
        known: of each session, the number of the last event that the log has.
        root: the conversation, where its user can begin others beside it, which are not mirrored.
    """

    def __init__(self, attempt: Attempt, client: Client, known: Mapping[str, int], root: str = "") -> None:
        self._attempt = attempt
        self._client = client
        self._known = dict(known)
        self._root = root
        self._lock = asyncio.Lock()

    async def take(self, *, durable: bool = False) -> None:
        """Bring the log up to what OpenCode has written by now.

        Raises:
            HarnessError: events of a session are missing.
        """
        async with self._lock:
            found: dict[str, list[Json]] = defaultdict(list)
            for event in await self._client.history(self._known):
                found[str(event.get("aggregate_id", ""))].append(event)
            for session, events in found.items():
                await self._record(session, events, durable=durable)

    async def _record(self, session: str, events: list[Json], *, durable: bool) -> None:
        if not session.startswith("ses_"):
            return
        first, wanted = int(events[0]["seq"]), self._known.get(session, -1) + 1
        if first == 0 and self._root not in {"", session} and not _above(events[0]):
            return
        if first != wanted:
            # Nothing could be put behind a gap: the session would be as it stood before it, and nobody would know.
            reason = f"its events of {session} go on with number {first}, where {wanted} is the next"
            raise HarnessError(harness="OpenCode", reason=reason)
        self._known[session] = int(events[-1]["seq"])
        await self._attempt.mirror(
            path_of(session), first, [as_line(event) for event in events], durable=durable
        )


def _above(created: Json) -> str:
    """The session above the one that this event creates; empty of a conversation of its own."""
    return str(as_object(as_object(created.get("data")).get("info")).get("parentID") or "")
