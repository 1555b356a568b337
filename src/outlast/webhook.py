"""A route by which other programs send a session a prompt or a signal.

    from outlast.webhook import signed, webhook_route

    app = Starlette(routes=[webhook_route(signed(SECRET)), …])

It is durable before it is answered, and the same delivery again is the same input: senders may repeat as they like.
What is not signed changes nothing and learns nothing.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.answers import failure, json_answer
from outlast.clock import Clock, SystemClock
from outlast.errors import (
    BadInput,
    OutlastError,
    Refused,
)
from outlast.opening import open_world, waker_of
from outlast.serving import read_body
from outlast.session import Session
from outlast.settings import read_settings
from outlast.signing import ID, sign, verify
from outlast.waker import Waker
from outlast.world import World

BODY_BYTES: Final = 1024 * 1024
_ID_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a program sends: a prompt, or a signal with its value."""

    id: str
    """The sender's own: the same for each time that the same is sent."""
    session: str
    prompt: str = ""
    signal: str = ""
    value: Any = None
    failed: bool = False
    """Of a signal: what is waited for failed, and `value` says why."""


Receive: TypeAlias = Callable[[Mapping[str, str], bytes, float], Delivery]
"""Reads a delivery in headers (by lower-case name), body and the time. Raises `Refused` if it does not come from whom
it should, `BadInput` if it is none."""


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    session: str
    prompt: str = ""
    signal: str = ""
    value: Any = None
    failed: bool = False


def signed(secret: str) -> Receive:
    """Takes `{"session": …, "signal": …, "value": …}` or `{"session": …, "prompt": …}`, signed by Standard Webhooks.

    Raises:
        BadInput: the secret is none.
    """
    sign(secret, "", b"", 0.0)

    def receive(headers: Mapping[str, str], body: bytes, now_s: float) -> Delivery:
        fault = verify(secret, headers, body, now_s)
        if fault:
            raise Refused(detail=fault)
        try:
            said = msgspec.json.decode(body, type=_Body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadInput(detail=f"The body is no delivery: {error}.") from None
        return Delivery(headers[ID], said.session, said.prompt, said.signal, said.value, said.failed)

    return receive


def webhook_route(
    receive: Receive,
    *,
    path: str = "/outlast/input",
    tenant: str = "default",
    world: Callable[[], AbstractAsyncContextManager[World]] = open_world,
    waker: Waker | None = None,
    clock: Clock | None = None,
) -> Route:
    """A route to mount in Starlette or FastAPI. It answers 202 and the id of the input once that is durable.

    401: it is not signed as it should be. 400: it is no delivery. 404: there is no such session. 409: the id came
    before with another content. 413: it is longer than a megabyte. 503: the World is away; the sender tries again.

    Args:
        receive: checks and reads a delivery; `signed` for one.
        tenant: whose sessions are reached, and nobody else's.
        world: opens the World, for each request anew.
        waker: woken with each delivery, where no worker is resident; by default as the settings have it.
    """
    watch = clock or SystemClock()

    async def take(request: Request) -> Response:
        body = await read_body(request, BODY_BYTES)
        if body is None:
            return json_answer(
                413, {"error": f"The body is longer than {BODY_BYTES} bytes, or came too slowly."}
            )
        try:
            delivery = receive(dict(request.headers), body, watch.now())
            check_delivery(delivery)
            hint = waker_of(read_settings()) if waker is None else waker
            async with world() as whole:
                taken = await deliver(whole.for_tenant(tenant), delivery)
            if hint is not None:
                await hint.wake(tenant, delivery.session)
        except OutlastError as error:
            return failure(error)
        return json_answer(202, {"input": taken})

    return Route(path, take, methods=["POST"])


def check_delivery(delivery: Delivery) -> None:
    """Raises BadInput: it is neither a prompt nor a signal, or has no id."""
    if not 0 < len(delivery.id) <= _ID_CHARS:
        raise BadInput(detail=f"A delivery needs an id of 1 to {_ID_CHARS} characters.")
    if bool(delivery.prompt) == bool(delivery.signal):
        raise BadInput(detail="A delivery is a prompt or a signal: one of the two.")


async def deliver(world: World, delivery: Delivery) -> str:
    """Put a delivery into its session's inbox. Durable when this returns. Returns the id of the input.

    Raises:
        InputConflict: the same delivery came before with another content.
        BadInput, SessionUnknown, SessionErased
    """
    session = await Session.find(world, delivery.session)
    input_id = f"hook-{delivery.id}"
    if delivery.signal:
        return await session.signal(delivery.signal, delivery.value, failed=delivery.failed, id=input_id)
    return (await session.send(delivery.prompt, id=input_id)).input
