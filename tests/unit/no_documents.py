"""The documents of a session that has none."""

from collections.abc import Mapping, Sequence

from outlast.clock import SystemClock
from outlast.engine.documents import CallDocs, Documents
from outlast.fold import SessionState


async def _no_blobs(names: Sequence[str]) -> Mapping[str, bytes]:
    return {}


def no_documents() -> CallDocs:
    """As a tool is given them."""
    return CallDocs(Documents(SessionState(session="s"), _no_blobs, {}, SystemClock()))
