"""What other programs send, signed: a prompt, or a signal."""

from collections.abc import Sequence
from typing import Final

from outlast.errors import Declined, NotFound, Refused
from outlast.server.operations import Call, Nothing, Operation, Unread
from outlast.server.routes.inputs import Taken
from outlast.webhook import BODY_BYTES, check_delivery, deliver


async def webhook(call: Call[Unread, Nothing]) -> Taken:
    """Take a prompt or a signal of another program, signed as Standard Webhooks has it.

    The body is `{"session": …, "prompt": …}` or `{"session": …, "signal": …, "value": …, "failed": …}`. The same
    delivery again is the same input.
    """
    hook = call.services.webhook
    if hook is None:
        raise NotFound(
            detail="This server takes nothing of other programs: OUTLAST_WEBHOOK_SECRET is not set."
        )
    try:
        delivery = hook.receive(dict(call.request.headers), call.body.data, call.services.clock.now())
    except Refused as error:
        raise Declined(status=401, detail=str(error)) from None
    check_delivery(delivery)
    taken = await deliver(call.services.world.for_tenant(hook.tenant), delivery)
    await call.services.woken(hook.tenant, delivery.session)
    return Taken(delivery.session, taken)


OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        "POST", "/v1/webhook", webhook, None, Taken, 202, Unread, most_bytes=BODY_BYTES, fails=(401, 404, 409)
    ),
)
