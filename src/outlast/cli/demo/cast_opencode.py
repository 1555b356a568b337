"""OpenCode plays: an agent of the shop."""

from typing import Final

from outlast.adapter import Agent
from outlast.adapters.opencode import OpenCode
from outlast.cli.demo.plot import MODEL
from outlast.cli.demo.plot_program import AGENT, Part, plot_of
from outlast.cli.demo.shop import charge_card, find_charges
from outlast.testing.models import ToolUse

agent = Agent(AGENT, OpenCode(model=MODEL), tools=[charge_card, find_charges])
PLOT: Final = plot_of(
    Part(
        what="OpenCode",
        cast="outlast.cli.demo.cast_opencode:agent",
        command=lambda command, why: ToolUse(name="bash", input={"command": command, "description": why}),
        application=lambda name, arguments: ToolUse(name=f"outlast_{name}", input=dict(arguments)),
        program="opencode",
        settings={"model": MODEL},
    )
)
