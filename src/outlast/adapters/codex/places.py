"""What Codex calls a session, and where it keeps it below HOME."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from outlast.ids import stable_uuid
from outlast.wrapping import TYPED

HOME: Final = ".outlast-codex"
"""Name below the session's home of the directory of everything that Codex keeps, of each session in one of its own.

They are emptied at each start, so they must be nobody's: HOME may be the user's own."""


SESSION: Final = "session"
FOUNDED: Final = "founded_s"
"""Settings of a session that was adopted: its own name in Codex, and when it began there, in Unix seconds."""


def thread_of(tenant: str, session: str, settings: Mapping[str, Any]) -> str:
    """The name in Codex of a session: its own where it was adopted."""
    adopted = settings.get(SESSION)
    return str(adopted) if adopted else thread_id(tenant, session)


def thread_id(tenant: str, session: str) -> str:
    """The name of an outlast session in Codex, a UUID: the same on every machine."""
    return stable_uuid("codex", tenant, session)


def input_id(thread: str, input_id: str) -> str:
    """The name of an input of `thread` in its rollout: that of the message which Codex makes of it.

    Of a prompt that was typed into Codex itself, the id of the turn which Codex began with it.
    """
    if input_id.startswith(TYPED):
        return input_id.removeprefix(TYPED)
    return stable_uuid("codex-input", thread, input_id)


def stamp(at_s: float) -> str:
    """A time as rollouts write it, from Unix seconds: `2026-11-30T02:36:12.265Z`."""
    moment = datetime.fromtimestamp(at_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def codex_home(thread: str) -> str:
    """Path below HOME of the `CODEX_HOME` of `thread`."""
    return f"{HOME}/{thread}"


def rollout_path(thread: str, founded_s: float) -> str:
    """Path below HOME of the rollout of `thread`, a session that was opened at Unix time `founded_s`."""
    moment = datetime.fromtimestamp(founded_s, UTC)
    return (
        f"{codex_home(thread)}/sessions/{moment:%Y/%m/%d}/rollout-{moment:%Y-%m-%dT%H-%M-%S}-{thread}.jsonl"
    )
