"""The page lets somebody in: a token becomes a cookie that no script can read."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from outlast.errors import Declined
from outlast.server.access import COOKIE, FOREIGN, OURS, Identity, Scope
from outlast.server.operations import Call, Nothing, Operation

DAYS: Final = 30


class Login(msgspec.Struct, frozen=True):
    """A token, as `outlast serve` and `outlast token add` print it."""

    token: str


class Who(msgspec.Struct, frozen=True):
    """Who asks, and what they may."""

    name: str
    tenant: str
    scopes: tuple[Scope, ...]


async def login(call: Call[Login, Nothing]) -> Response:
    """Exchange a token for the page's cookie.

    Only the page can, which sends `x-outlast: page`: a form of another site must log nobody in as somebody else.
    """
    _check_ours(call)
    doorkeeper = call.services.doorkeeper
    identity = None if doorkeeper is None else await doorkeeper.identify(call.body.token)
    if identity is None:
        raise Declined(status=401, detail="Nobody is known by this token.")
    answer = Response(msgspec.json.encode(_who(identity)), media_type="application/json")
    _set(answer, call, call.body.token, DAYS * 86_400)
    return answer


async def logout(call: Call[Nothing, Nothing]) -> Response:
    """Take the page's cookie away. Only the page can, as it can set it."""
    _check_ours(call)
    answer = Response(status_code=204)
    _set(answer, call, "", 0)
    return answer


async def whoami(call: Call[Nothing, Nothing]) -> Who:
    """Say who asks, and what they may."""
    return _who(call.identity)


def _check_ours(call: Call[Any, Any]) -> None:
    """A form of another site must not change who somebody is here: prompts would go to whoever made it.

    Raises:
        Declined: the page did not send this.
    """
    if call.request.headers.get(OURS[0]) != OURS[1]:
        raise Declined(status=403, detail=FOREIGN)


def _who(identity: Identity) -> Who:
    return Who(identity.name, identity.tenant, tuple(sorted(identity.scopes)))


def _set(answer: Response, call: Call[Any, Any], value: str, max_age_s: int) -> None:
    request = call.request
    answer.set_cookie(
        COOKIE,
        value,
        max_age=max_age_s,
        path=request.scope.get("root_path", "") or "/",
        secure=call.services.public_url.startswith("https://") or request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("POST", "/v1/login", login, None, Who, body=Login, most_bytes=16_384, fails=(401, 403)),
    Operation("POST", "/v1/logout", logout, None, fails=(403,)),
    Operation("GET", "/v1/whoami", whoami, Scope.READ, Who),
)
