"""Requests that are no model calls, passed on to the provider: counting tokens, listing models."""

from typing import Final

import httpx

from outlast.gateway.doors import OpenDoor
from outlast.gateway.feed import Whole
from outlast.gateway.limits import Limits
from outlast.gateway.line import Line
from outlast.gateway.refusals import error, redirected, refused
from outlast.gateway.target import Asked, Asker, NoCredential, NotOffered, Upstream
from outlast.gateway.wire import BodyRefused, ClientGone, Http

_ANSWER_BYTES: Final = 16 * 1024 * 1024


class Passage:
    """Passes requests on."""

    def __init__(self, upstream: Upstream, line: Line, limits: Limits) -> None:
        self._upstream = upstream
        self._line = line
        self._limits = limits

    async def answer(self, http: Http, door: OpenDoor) -> None:
        """Pass one request on, and its answer back."""
        try:
            body = await http.asked(self._limits.request_bytes, self._limits.body_s)
            whole = await self._ask(http, door, body)
        except BodyRefused as refusal:
            whole = error(door.dialect, refusal.status, str(refusal))
        except NoCredential as missing:
            whole = refused(door.dialect, str(missing))
        except NotOffered as nothing:
            whole = error(door.dialect, 404, str(nothing))
        except httpx.TimeoutException:
            whole = error(door.dialect, 504, "The provider gave no answer in time.")
        except httpx.HTTPError as broken:
            whole = error(
                door.dialect, 502, f"The connection to the provider broke ({type(broken).__name__})."
            )
        except ClientGone:
            return
        try:
            await http.whole(whole.status, whole.body, whole.headers)
        except ClientGone:
            return

    async def _ask(self, http: Http, door: OpenDoor, body: bytes) -> Whole:
        attempt = door.attempt
        target = await self._upstream.target(Asker(door.dialect.name, attempt.tenant, attempt.session))
        asked = Asked(http.method, http.target, http.pairs, body or None)
        async with self._line.ask(target, asked) as response:
            if place := response.leads_elsewhere:
                return redirected(door.dialect, response.status, place)
            answer = bytearray()
            async for chunk in response.chunks():
                answer += chunk
                if len(answer) > _ANSWER_BYTES:
                    return error(door.dialect, 502, f"The answer is longer than {_ANSWER_BYTES:,} bytes.")
            return Whole(response.status, bytes(answer), response.headers)
