"""`outlast decide --link`: a signed link by which somebody without a token decides about one call."""

from typing import Final

from outlast.cli.options import Setup
from outlast.cli.text import moment
from outlast.links import links_of, pass_for
from outlast.session import Session

HOLDS_S: Final = 24 * 3600.0


async def print_link(setup: Setup, session: str, call: int, by: str) -> None:
    """Print a link to decide about a call, which holds for a day.

    Raises:
        Refused: the call waits for no decision.
    """
    until_s = setup.clock.now() + HOLDS_S
    async with setup.world() as opened:
        found = await Session.find(opened, session)
        allowed = await pass_for(found, call, (), until_s, by or "the command line")
    link = links_of(setup.settings).write(allowed)
    url = f"{setup.settings.public_url.rstrip('/')}/decide/{link}"
    value = {"session": session, "call": call, "link": link, "url": url, "until_s": until_s}
    setup.say(value, f"{url}\nIt decides about call {call} of {session}, once, until {moment(until_s)}.")
