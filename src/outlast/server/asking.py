"""What stands between a request and its operation: the checks that `operations` names, in its order."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from outlast.answers import json_answer
from outlast.clock import Clock
from outlast.errors import (
    BadEdit,
    BadInput,
    Declined,
    FileMissing,
    InputConflict,
    NotFound,
    OutlastError,
    Refused,
    SessionBusy,
    SessionErased,
    SessionExists,
    SessionFull,
    SessionUnknown,
    WorldUnavailable,
)
from outlast.logs import logger
from outlast.server.access import FOREIGN, NOBODY, OURS, Doorkeeper, Identity, credential_of
from outlast.server.limits import Buckets, Limits
from outlast.server.operations import Call, Operation, Services, Streamed
from outlast.server.reading import read_body, read_path, read_query
from outlast.server.sending import Stream

log = logger("outlast.server")

UNKNOWN = (
    "Nobody is known by this token. Send one as `authorization: Bearer …`; `outlast token add` makes one."
)
NOBODY_SAID = "This needs a token, as `authorization: Bearer …`. `outlast token add` makes one."
STREAM_WAIT_S = 20.0
"""How long who asks for a stream is let wait for its turn."""
OFTEN = "Too many requests. Try again in {wait_s:.1f} s."


@dataclass(frozen=True, slots=True)
class Desk:
    """Answers requests, each for its operation."""

    services: Services
    doorkeeper: Doorkeeper
    limits: Limits
    known: Buckets
    unknown: Buckets
    clock: Clock

    @classmethod
    def of(cls, services: Services, doorkeeper: Doorkeeper, limits: Limits, clock: Clock) -> "Desk":
        """A desk with buckets of its own."""
        return cls(
            services, doorkeeper, limits, Buckets(limits.known, clock), Buckets(limits.unknown, clock), clock
        )

    async def answer(self, request: Request, operation: Operation) -> Response:
        """What the operation answers, or why it does not."""
        began_s, meter = self.clock.elapsed(), self.services.meter
        response = await self._tried(request, operation)
        tenant = getattr(request.state, "tenant", NOBODY.tenant)
        meter.answered(tenant, name_of(operation), response.status_code, self.clock.elapsed() - began_s)
        return response

    async def _tried(self, request: Request, operation: Operation) -> Response:
        try:
            return await self._answered(request, operation)
        except OutlastError as error:
            if status_of(error) == 401:
                # Counted here alone: whoever shares an address with strangers, as behind a proxy, is known first.
                wait_s = self.unknown.take(_address(request))
                error = _too_often(wait_s) if wait_s else error
            if status_of(error) >= 500:
                log.warning("%s %s was not answered", request.method, operation.path, exc_info=error)
            return refusal(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except anyio.get_cancelled_exc_class():
            raise
        except Exception as error:
            log.exception("%s %s failed", request.method, operation.path, exc_info=error)
            return json_answer(500, {"error": "The server failed at this. Its log has more; report it."})

    async def _answered(self, request: Request, operation: Operation) -> Response:
        identity = await self._who(request, operation)
        request.state.tenant = identity.tenant
        _check_may(request, operation, identity)
        path = read_path(request)
        query = read_query(request, operation)
        body = await read_body(request, operation, self.limits.body_s)
        world = self.services.world.for_tenant(identity.tenant)
        call = Call(request, self.services, identity, world, path, body, query)
        found = await operation.answer(call)
        match found:
            case None:
                return Response(status_code=204)
            case Response():
                return found
            case Streamed():
                watching = found.media == "text/event-stream"
                held = self.services.meter.watched(identity.tenant) if watching else nullcontext()
                return Stream(found, operation.status, self.limits.send_s, held)
            case _:
                return Response(msgspec.json.encode(found), operation.status, media_type="application/json")

    async def _who(self, request: Request, operation: Operation) -> Identity:
        if operation.scope is None:
            return NOBODY
        credential, by_cookie = credential_of(request)
        identity = await self.doorkeeper.identify(credential) if credential else None
        if identity is None:
            raise Declined(status=401, detail=UNKNOWN if credential else NOBODY_SAID)
        await self._in_turn(request, f"{identity.tenant}\n{identity.name}")
        return replace(identity, by_cookie=by_cookie)

    async def _in_turn(self, request: Request, name: str) -> None:
        """Let them ask; who asks for a stream may have to wait a while first.

        All who watched come back at once when a server was restarted, and an `EventSource` that is answered 429 gives
        up for good.

        Raises:
            Declined: they ask too often.
        """
        if "text/event-stream" not in request.headers.get("accept", ""):
            wait_s = self.known.take(name)
            if wait_s:
                raise _too_often(wait_s)
            return
        wait_s = self.known.reserve(name, STREAM_WAIT_S)
        if wait_s > STREAM_WAIT_S:
            raise _too_often(wait_s)
        await anyio.sleep(wait_s)


def name_of(operation: Operation) -> str:
    """What an operation is called, in the OpenAPI and in metrics."""
    return getattr(operation.answer, "__name__", "").strip("_")


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _too_often(wait_s: float) -> Declined:
    error = Declined(status=429, detail=OFTEN.format(wait_s=wait_s))
    error.retry_after_s = wait_s
    return error


def _check_may(request: Request, operation: Operation, identity: Identity) -> None:
    """Raises Declined: it may not."""
    if operation.scope is not None and operation.scope not in identity.scopes:
        raise Declined(
            status=403,
            detail=f"This needs the scope '{operation.scope}', which {identity.name} does not have.",
        )
    if operation.method != "GET" and identity.by_cookie and request.headers.get(OURS[0]) != OURS[1]:
        raise Declined(status=403, detail=FOREIGN)


def status_of(error: OutlastError) -> int:
    """The status that a caller can act on."""
    match error:
        case Declined():
            return int(str(error.facts["status"]))
        case NotFound() | SessionErased() | FileMissing():
            return 404
        case InputConflict() | SessionExists() | SessionBusy() | SessionFull() | BadEdit() | Refused():
            return 409
        case BadInput():
            return 400
        case WorldUnavailable():
            return 503
        case _:
            return 500


def _told(error: OutlastError) -> str:
    """The sentence of an error, without where our store is: that is no business of whoever asks."""
    match error:
        case SessionUnknown():
            return f"There is no session {error.facts['session']!r}. `GET /v1/sessions` lists what is there."
        case WorldUnavailable():
            return "The server cannot reach what it needs now. Nothing acknowledged is lost: try again."
        case _:
            return str(error)


def refusal(error: OutlastError) -> Response:
    """The answer for an error."""
    status = status_of(error)
    answer = json_answer(status, {"error": _told(error)})
    headers: Mapping[str, str] = {}
    if status == 401:
        headers = {"www-authenticate": "Bearer"}
    elif isinstance(error, Declined) and error.retry_after_s:
        headers = {"retry-after": str(max(1, round(error.retry_after_s)))}
    answer.headers.update(headers)
    return answer
