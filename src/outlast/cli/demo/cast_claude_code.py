"""Claude Code plays: an agent of the shop."""

from typing import Final

from outlast.adapter import Agent
from outlast.adapters.claude_code import ClaudeCode
from outlast.cli.demo.plot import MODEL
from outlast.cli.demo.plot_program import AGENT, Part, plot_of
from outlast.cli.demo.shop import charge_card, find_charges
from outlast.cli.extras import Extra
from outlast.testing.models import ToolUse

agent = Agent(AGENT, ClaudeCode(model=MODEL), tools=[charge_card, find_charges])
PLOT: Final = plot_of(
    Part(
        what="Claude Code",
        cast="outlast.cli.demo.cast_claude_code:agent",
        command=lambda command, why: ToolUse(name="Bash", input={"command": command, "description": why}),
        application=lambda name, arguments: ToolUse(name=f"mcp__outlast__{name}", input=dict(arguments)),
        extra=Extra("claude-code", ("claude_agent_sdk",), "Claude Code", "some 400 MB", alone=True),
        settings={"model": MODEL},
    )
)
