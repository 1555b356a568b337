"""Pi plays: an agent of the shop."""

from typing import Final

from outlast.adapter import Agent
from outlast.adapters.pi import Pi
from outlast.cli.demo.plot import MODEL
from outlast.cli.demo.plot_program import AGENT, Part, plot_of
from outlast.cli.demo.shop import charge_card, find_charges
from outlast.testing.models import ToolUse

agent = Agent(AGENT, Pi(model=MODEL), tools=[charge_card, find_charges])
PLOT: Final = plot_of(
    Part(
        what="Pi",
        cast="outlast.cli.demo.cast_pi:agent",
        command=lambda command, _: ToolUse(name="bash", input={"command": command}),
        application=lambda name, arguments: ToolUse(name=name, input=dict(arguments)),
        program="pi",
        settings={"model": MODEL},
    )
)
