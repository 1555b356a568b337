"""A client's connection: requests one after the other, each answered before the next is read."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio
import h11
from anyio.abc import ByteStream

from outlast.workspaces.egress.coded import Unseen
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.egress.policy import Refusal
from outlast.workspaces.egress.relay import HostLost, Silence
from outlast.workspaces.egress.wire import LOST, Side, stale

_LOST_HOST: Final = "The host ended the connection before its answer was whole"


class Left(Exception):
    """The client says no more."""


class Answering(Protocol):
    """Answers the requests of a conversation."""

    async def answer(self, asked: h11.Request, talk: "Conversation") -> None:
        """Answer a request.

        Raises:
            Refusal: it is not carried; the client is told so.
            HostLost, Silence, LOST, Unseen: the connection is of no more use.
        """
        ...

    def refused(self, asked: h11.Request | None, refusal: Refusal) -> None:
        """A client was told so; None: its request could not be read."""
        ...


class Conversation:
    """With one client, and the host that it asked last."""

    def __init__(self, stream: ByteStream, answering: Answering, limits: Limits) -> None:
        self.client = Side(stream, h11.SERVER, limits.head_bytes)
        self.limits = limits
        self._answering = answering
        self._host: tuple[object, Side] | None = None
        self._kept_at = 0.0

    async def serve(self) -> None:
        """Answer until the client goes, or is sent away."""
        wait_s = self.limits.head_s
        try:
            while await self._one(wait_s):
                self.client.http.start_next_cycle()
                wait_s = self.limits.pause_s
        except (*LOST, Left, Silence):
            return
        finally:
            await self._drop_host()
            await self.client.close()

    async def reach(self, key: object, dial: Callable[[], Awaitable[ByteStream]]) -> Side:
        """A connection to a host: that of the request before, if it was for the same `key` and stands."""
        kept, self._host = self._host, None
        if kept is not None:
            fresh = anyio.current_time() - self._kept_at < self.limits.reuse_s
            if kept[0] == key and fresh and not stale(kept[1].stream):
                return kept[1]
            await kept[1].close()
        return Side(await dial(), h11.CLIENT, self.limits.head_bytes)

    async def keep(self, key: object, host: Side) -> None:
        """After an exchange: keep the connection for the next, if it came to its end."""
        if host.http.our_state is h11.DONE and host.http.their_state is h11.DONE:
            host.http.start_next_cycle()
            self._host, self._kept_at = (key, host), anyio.current_time()
        else:
            await host.close()

    async def _one(self, wait_s: float) -> bool:
        """Answer one request; whether another may come."""
        asked: h11.Request | None = None
        try:
            asked = await self._request(wait_s)
            await self._answering.answer(asked, self)
        except h11.RemoteProtocolError as error:
            status = 505 if "HTTP version" in str(error) else error.error_status_hint
            await self._refuse(asked, Refusal(status, _spoken(status)))
        except Refusal as refusal:
            await self._refuse(asked, refusal)
        except HostLost:
            await self._refuse(asked, Refusal(502, _LOST_HOST))
        except Unseen as unseen:
            await self._refuse(asked, Refusal(502, f"The answer of the host is not let in: {unseen}"))
        else:
            http = self.client.http
            return http.our_state is h11.DONE and http.their_state is h11.DONE
        return False

    async def _request(self, wait_s: float) -> h11.Request:
        with anyio.move_on_after(wait_s) as waiting:
            await self.client.begun()
        if waiting.cancelled_caught:
            raise Left
        with anyio.move_on_after(self.limits.head_s):
            event = await self.client.next()
            if not isinstance(event, h11.Request):
                raise Left
            if event.http_version not in {b"1.0", b"1.1"}:
                raise Refusal(505, _spoken(505))
            return event
        raise Refusal(408, "The head of a request did not come in time")

    async def _refuse(self, asked: h11.Request | None, refusal: Refusal) -> None:
        self._answering.refused(asked, refusal)
        if self.client.http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return  # an answer is under way: cutting it off is all that can be said
        await self.client.whole(refusal.status, f"outlast: {refusal.short}", f"outlast: {refusal}")
        with anyio.move_on_after(self.limits.linger_s):
            await self.client.read_out()

    async def _drop_host(self) -> None:
        kept, self._host = self._host, None
        if kept is not None:
            await kept[1].close()


def _spoken(status: int) -> str:
    match status:
        case 505:
            return "Only HTTP/1.1 is spoken here"
        case 431:
            return "The head of the request is too long"
        case 501:
            return "The body is in a coding that is not carried: send it chunked, or with its length"
        case _:
            return "This is no request of HTTP/1.1"
