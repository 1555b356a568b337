"""Codex plays: an agent of the shop."""

from typing import Final

from outlast.adapter import Agent
from outlast.adapters.codex import Codex
from outlast.cli.demo.plot_program import AGENT, Part, plot_of
from outlast.cli.demo.shop import charge_card, find_charges
from outlast.testing.models import ToolUse

MODEL: Final = "gpt-5.5"
agent = Agent(AGENT, Codex(model=MODEL), tools=[charge_card, find_charges])
PLOT: Final = plot_of(
    Part(
        what="Codex",
        cast="outlast.cli.demo.cast_codex:agent",
        command=lambda command, _: ToolUse(name="exec_command", input={"cmd": command}),
        application=lambda name, arguments: ToolUse(name=name, input=dict(arguments)),
        program="codex",
        settings={"model": MODEL},
    )
)
