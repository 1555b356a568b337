"""The story of a program: what the scripted model says to it, and what is in the shop. One for every harness."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.cli.demo.plot import GAP_S, STREAMED, Plot, usage
from outlast.cli.extras import Extra
from outlast.testing.models import Script, Step, ToolUse

AGENT: Final = "demo-shop"
_FILES: Final = {"orders.txt": "order 80  12.00  paid\norder 81  49.90  open\norder 82   7.50  paid\n"}


@dataclass(frozen=True, slots=True)
class Part:
    """What the story must know of the program that plays in it."""

    what: str
    """Its name, for people."""
    cast: str
    """Where the workers find the agent, as MODULE:AGENT."""
    command: Callable[[str, str], ToolUse]
    """Its shell tool, given a command and what it is for."""
    application: Callable[[str, Mapping[str, Any]], ToolUse]
    """A tool of the application, as the model is offered it, with its arguments."""
    extra: Extra | None = None
    """What brings it, where that is an extra."""
    program: str = ""
    """What `outlast install` calls it, where that brings it."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


def plot_of(part: Part) -> Plot:
    """The story, with this program in it."""
    count = part.command("wc -l orders.txt", "Count the lines")
    steps = (
        Step(
            text="I look at the orders first.",
            tools=(part.command("cat orders.txt", "Read the orders"),),
            usage=usage(5200, 84, 0),
        ),
        Step(
            text=STREAMED.format(source="file"),
            tools=(part.application("charge_card", {"order": "81", "cents": 4990}),),
            usage=usage(260, 131, 5200),
            gap_s=GAP_S,
        ),
        Step(
            text="I check what was really charged.",
            tools=(part.application("find_charges", {"order": "81"}),),
            usage=usage(240, 66, 5460),
        ),
        Step(
            text="It was charged once. Now the lines.",
            tools=(count,),
            usage=usage(120, 58, 5700),
            delay_s=0.3,
        ),
        Step(
            text="Order 81 is paid: 49.90, charged exactly once. orders.txt has 3 lines.",
            usage=usage(110, 41, 5820),
        ),
    )
    return Plot(
        title=f"A real {part.what} turn, two workers, three kills.",
        agent=AGENT,
        cast=part.cast,
        extra=part.extra,
        program=part.program,
        prompt=(
            "Order 81 in orders.txt is not paid yet. Read the file, charge the card of order 81 with the charge_card "
            "tool, make sure with find_charges that it was charged exactly once, count the lines of orders.txt, and "
            "tell me. [script:demo]"
        ),
        script=Script(conversations={"demo": steps}),
        last_chance=count.name,
        files=_FILES,
        settings=part.settings,
    )
