"""The way to the worker's gateway, and to nothing else of the worker's machine.

Each request is marked with the session that it came from (`outlast.sandbox.SESSION_HEADER`), whatever it says of that
itself. The gateway lets a token in only with the mark of its own session or with none, so that the token of another,
wherever it was found, opens nothing from inside.
"""

import math
from typing import Final
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import ByteStream

from outlast.sandbox import SESSION_HEADER, session_mark
from outlast.workspaces.egress.conversation import Conversation
from outlast.workspaces.egress.events import Who
from outlast.workspaces.egress.hosts import written
from outlast.workspaces.egress.policy import Refusal
from outlast.workspaces.egress.relay import Exchange, framed, passing
from outlast.workspaces.egress.scrub import Scrub

_MARK: Final = SESSION_HEADER.encode()


class Forward:
    """Answers what a sandbox asks the gateway, by asking it."""

    def __init__(self, gateway: str, who: Who) -> None:
        parts = urlsplit(gateway)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._mark = session_mark(who.tenant, who.session).encode()

    async def answer(self, asked: h11.Request, talk: Conversation) -> None:
        """See `outlast.workspaces.egress.conversation.Answering`."""
        headers = [each for each in passing(asked.headers, upgrade=True) if each[0] not in {b"host", _MARK}]
        headers += [(b"host", written(self.host, self.port).encode()), (_MARK, self._mark)]
        request = h11.Request(method=asked.method, target=asked.target, headers=framed(asked, headers))
        gateway = await talk.reach(self, self._dial)
        # The gateway has its own patience: it waits for models and people.
        exchange = Exchange(talk.client, gateway, Scrub(()), math.inf, talk.limits.linger_s)
        try:
            await exchange.carry(request)
        finally:
            await talk.keep(self, gateway)

    def refused(self, asked: h11.Request | None, refusal: Refusal) -> None:
        """Whoever asked was told."""

    async def _dial(self) -> ByteStream:
        try:
            return await anyio.connect_tcp(self.host, self.port)
        except OSError:
            raise Refusal(502, "The worker's gateway is gone") from None
