"""Signed links: made by somebody who may decide, and used by somebody who has nothing but the link."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from outlast.awaited import Awaited, awaited_by
from outlast.deciding import Word, decide
from outlast.errors import Declined, NotFound, Refused
from outlast.links import Links, Pass, pass_for
from outlast.records.kinds import Ruling
from outlast.server.access import Identity, Scope
from outlast.server.operations import Call, Nothing, Operation
from outlast.server.routes.inputs import Decision, Number, Taken
from outlast.server.routes.sessions import session_of
from outlast.session import Session

HOLDS_S: Final = 24 * 3600.0
LONGEST_S: Final = 30 * 24 * 3600.0
STALE: Final = "Call {call} of {session} waits for no such decision any more."


class LinkWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Makes a link to decide about a call."""

    call: Number
    rulings: tuple[Ruling, ...] = ()
    """What it lets its holder decide; empty: whatever may be."""
    holds_s: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_S)] = HOLDS_S


class Link(msgspec.Struct, frozen=True):
    """A link to decide about a call."""

    link: str
    """Its own part of the address: `/decide/…`."""
    url: str
    """All of it, where the server knows where people reach it; else empty."""
    call: int
    ask: str
    rulings: tuple[Ruling, ...]
    until_s: float


class Linked(msgspec.Struct, frozen=True):
    """What a link is about."""

    session: str
    agent: str
    until_s: float
    awaited: Awaited


async def make_link(call: Call[LinkWanted, Nothing]) -> Link:
    """Make a signed link by which somebody without a token decides about one call, once."""
    session, body, links = await session_of(call), call.body, _links(call)
    until_s = call.services.clock.now() + body.holds_s
    allowed = await pass_for(session, body.call, body.rulings, until_s, call.identity.name)
    call.services.audit(call.identity, "link", {"session": session.id, "call": body.call, "until_s": until_s})
    link = links.write(allowed)
    url = f"{call.services.public_url}/decide/{link}" if call.services.public_url else ""
    return Link(link, url, body.call, allowed.ask, allowed.rulings, until_s)


async def get_link(call: Call[Nothing, Nothing]) -> Linked:
    """Show what a signed link is about. This decides nothing."""
    allowed, session, found = await _opened(call)
    agent = (await session.head()).agent
    return Linked(session.id, agent, allowed.until_s, found)


async def use_link(call: Call[Decision, Nothing]) -> Taken:
    """Decide by a signed link. It counts once; a stale one is refused."""
    allowed, session, _ = await _opened(call)
    body = call.body
    if body.call != allowed.call or body.ask not in {"", allowed.ask}:
        raise Declined(status=403, detail="This link is about another call.")
    if body.ruling not in allowed.rulings or body.for_turn:
        raise Declined(status=403, detail=f"This link allows {', '.join(allowed.rulings)} alone.")
    by = Identity(f"link of {allowed.by}", allowed.tenant, frozenset({Scope.DECIDE}))
    taken = await decide(session, allowed.call, Word(body.ruling, body.value, by.name, ask=allowed.ask))
    call.services.audit(
        by, "decide", {"session": session.id, "call": allowed.call, "ruling": body.ruling, "input": taken}
    )
    await call.services.woken(allowed.tenant, session.id)
    return Taken(session.id, taken)


async def _opened(call: Call[Any, Any]) -> tuple[Pass, Session, Awaited]:
    """What a link allows, and what stands there now.

    Raises:
        BadInput: it is none.
        Refused: it is stale.
        SessionUnknown, SessionErased
    """
    allowed = _links(call).read(call.path["link"], call.services.clock.now())
    world = call.services.world.for_tenant(allowed.tenant)
    session = await Session.find(world, allowed.session, clock=call.services.clock)
    found = _asked(await awaited_by(session, await session.state()), allowed.call)
    if found is None or found.ask != allowed.ask:
        raise Refused(detail=STALE.format(call=allowed.call, session=session.id))
    rulings = tuple(ruling for ruling in found.rulings if ruling in allowed.rulings)
    return allowed, session, msgspec.structs.replace(found, rulings=rulings)


def _links(call: Call[Any, Any]) -> Links:
    if call.services.links is None:
        raise NotFound(detail="This server was set up without links.")
    return call.services.links


def _asked(awaits: Sequence[Awaited], number: int) -> Awaited | None:
    return next((one for one in awaits if one.call == number and one.rulings), None)


OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        "POST",
        "/v1/sessions/{session}/approval-links",
        make_link,
        Scope.DECIDE,
        Link,
        201,
        LinkWanted,
        fails=(409,),
    ),
    Operation("GET", "/v1/decide/{link}", get_link, None, Linked, fails=(409,)),
    Operation("POST", "/v1/decide/{link}", use_link, None, Taken, 202, Decision, fails=(403, 409)),
)
