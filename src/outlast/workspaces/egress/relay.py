"""One request carried to a host, and its answer carried back, as they come: nothing is held for longer than it takes.

Both directions run at once, since a host may answer before it has read everything. An exchange ends when the answer
has; when its client goes away; when one of the two does not speak HTTP; or after a time without a byte.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import anyio
import h11

from outlast.groups import task_group
from outlast.workspaces.egress.coded import Coded
from outlast.workspaces.egress.scrub import Scrub
from outlast.workspaces.egress.wire import LOST, Header, Side, values

_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
        b"alt-svc",  # of ways that do not lead out of here
    }
)
CHUNKED: Final = (b"transfer-encoding", b"chunked")
_WITHOUT_BODY: Final = frozenset({204, 304})


class HostLost(Exception):
    """The host ended, or said what is no HTTP, in the middle of an answer or before it."""


class Silence(Exception):
    """Nobody has said anything for too long."""


@dataclass(slots=True)
class Quiet:
    """Ends a scope when nothing was heard for `idle_s`."""

    idle_s: float
    scope: anyio.CancelScope
    heard_at: float = 0.0

    def heard(self) -> None:
        """Something was."""
        now = anyio.current_time()
        if now - self.heard_at > min(1.0, self.idle_s / 4):  # moving a deadline costs more than a comparison
            self.heard_at = now
            self.scope.deadline = now + self.idle_s


class Exchange:
    """Of one request whose head is `asked`, in the form in which the host is to have it.

    Attributes:
        status: what the host answered; 0: nothing.
    """

    def __init__(self, client: Side, host: Side, scrub: Scrub, idle_s: float, linger_s: float) -> None:
        self._client = client
        self._host = host
        self._scrub = scrub
        self._idle_s = idle_s
        self._linger_s = linger_s
        self._asked_all = False
        self._client_gone = False
        self._body: Scrub | Coded = scrub
        self._has_body = True
        self.status = 0

    async def carry(self, asked: h11.Request) -> None:
        """Carry it, and the answer.

        Raises:
            HostLost: before or in the middle of the answer.
            Silence
            LOST: the client is gone, or does not speak HTTP.
            Unseen: the answer would say again what was added to the request, or may.
        """
        self._has_body = asked.method != b"HEAD"
        with anyio.CancelScope() as scope:
            quiet = Quiet(self._idle_s, scope)
            quiet.heard()
            await self._both(asked, quiet)
        if scope.cancelled_caught:
            raise Silence
        if self._client_gone:
            raise anyio.BrokenResourceError

    async def _both(self, asked: h11.Request, quiet: Quiet) -> None:
        await self._to_host(asked)
        async with task_group() as tasks:
            tasks.start_soon(self._ask, quiet, tasks.cancel_scope)
            await self._answer(quiet)
            if self._asked_all:
                tasks.cancel_scope.cancel()
            # What a client still sends is read to its end for a while: closing before takes the answer from it.
            tasks.cancel_scope.deadline = anyio.current_time() + self._linger_s

    async def _ask(self, quiet: Quiet, all_of_it: anyio.CancelScope) -> None:
        """Carry the body of the request, then watch whether the client is there."""
        while True:
            event = await self._client.next()
            quiet.heard()
            if isinstance(event, h11.EndOfMessage):
                break
            if isinstance(event, h11.Data) and self._host.http.our_state is h11.SEND_BODY:
                await self._give(h11.Data(data=event.data))
        if self._host.http.our_state is h11.SEND_BODY:
            await self._give(h11.EndOfMessage())
        self._asked_all = True
        if self._client.http.our_state not in {h11.SEND_RESPONSE, h11.SEND_BODY}:
            return
        await self._client.until_gone()
        self._client_gone = True
        all_of_it.cancel()

    async def _give(self, event: h11.Event) -> None:
        try:
            await self._host.send(event)
        except LOST:
            # It takes no more: what it has answered before that is still to be read.
            self._host.http.send_failed()

    async def _answer(self, quiet: Quiet) -> None:
        """Carry the answer: all that is here at once, before more is waited for."""
        while self._take(await self._from_host()):
            quiet.heard()
        await self._client.flush()

    def _take(self, event: object) -> bool:
        """Hand on a piece of the answer; whether more is to come."""
        match event:
            case h11.InformationalResponse(status_code=100):
                if self._client.http.they_are_waiting_for_100_continue:
                    self._client.put(h11.InformationalResponse(status_code=100, headers=[]))
            case h11.Response():
                self.status = event.status_code
                if self._has_body and event.status_code not in _WITHOUT_BODY:
                    self._body = self._scrub.of_body(values(event.headers, b"content-encoding"))
                self._client.put(self._head(event))
            case h11.Data():
                self._pass(self._body.body(bytes(event.data)))
            case h11.EndOfMessage():
                self._pass(self._body.rest())
                self._client.put(h11.EndOfMessage())
                return False
            case h11.InformationalResponse(status_code=101) | h11.ConnectionClosed():
                raise HostLost
            case _:
                pass
        return True

    def _head(self, answer: h11.Response) -> h11.Response:
        headers = self._scrub.headers(passing(answer.headers))
        if values(answer.headers, b"transfer-encoding"):  # which says how long it is, whatever the other says
            headers = [each for each in headers if each[0] != b"content-length"]
        reason = self._scrub.text(bytes(answer.reason))
        return h11.Response(status_code=answer.status_code, headers=headers, reason=reason)

    def _pass(self, data: bytes) -> None:
        if data:
            self._client.put(h11.Data(data=data))

    async def _to_host(self, asked: h11.Request) -> None:
        try:
            await self._host.send(asked)
        except LOST as error:
            raise HostLost from error

    async def _from_host(self) -> object:
        """What the host says next. While it is waited for, nothing that came before is held back."""
        try:
            event = self._host.ready()
        except LOST as error:
            await self._client.flush()
            raise HostLost from error
        while event is None:
            await self._client.flush()
            try:
                await self._host.more()
                event = self._host.ready()
            except LOST as error:
                raise HostLost from error
        return event


def passing(headers: Iterable[Header], *, upgrade: bool = False) -> list[Header]:
    """Headers without those that are about one connection only; `upgrade`: but the wish for another protocol."""
    found = [(bytes(name), bytes(value)) for name, value in headers]
    named = set(values(found, b"connection")) - {b"content-length"}
    kept = [each for each in found if each[0] not in _HOP and each[0] not in named]
    if upgrade:
        wished = [each for each in found if each[0] == b"upgrade"]
        kept += [*wished, (b"connection", b"upgrade")] if wished else []
    return kept


def framed(asked: h11.Request, headers: list[Header]) -> list[Header]:
    """Headers of a request with what says how long its body is, as the client said it."""
    return [*headers, CHUNKED] if values(asked.headers, b"transfer-encoding") else headers
