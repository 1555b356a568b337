"""The story of Claude Code: what the scripted model says, and what is in the shop."""

from typing import Final

from outlast.cli.demo.plot import GAP_S, MODEL, STREAMED, Plot, usage
from outlast.cli.extras import Extra
from outlast.testing.models import Script, Step, ToolUse

_STEPS: Final = (
    Step(
        text="I look at the orders first.",
        tools=(ToolUse(name="Bash", input={"command": "cat orders.txt", "description": "Read the orders"}),),
        usage=usage(5200, 84, 0),
    ),
    Step(
        text=STREAMED.format(source="file"),
        tools=(ToolUse(name="mcp__outlast__charge_card", input={"order": "81", "cents": 4990}),),
        usage=usage(260, 131, 5200),
        gap_s=GAP_S,
    ),
    Step(
        text="I check what was really charged.",
        tools=(ToolUse(name="mcp__outlast__find_charges", input={"order": "81"}),),
        usage=usage(240, 66, 5460),
    ),
    Step(
        text="It was charged once. Now the lines.",
        tools=(
            ToolUse(name="Bash", input={"command": "wc -l orders.txt", "description": "Count the lines"}),
        ),
        usage=usage(120, 58, 5700),
        delay_s=0.3,
    ),
    Step(
        text="Order 81 is paid: 49.90, charged exactly once. orders.txt has 3 lines.",
        usage=usage(110, 41, 5820),
    ),
)

PLOT: Final = Plot(
    title="A real Claude Code turn, two workers, three kills.",
    agent="demo-shop",
    cast="outlast.cli.demo.cast_claude_code:agent",
    extra=Extra("claude-code", ("claude_agent_sdk",), "Claude Code", "some 400 MB", alone=True),
    prompt=(
        "Order 81 in orders.txt is not paid yet. Read the file, charge the card of order 81 with the charge_card tool, "
        "make sure with find_charges that it was charged exactly once, count the lines of orders.txt, and tell me. "
        "[script:demo]"
    ),
    script=Script(conversations={"demo": _STEPS}),
    last_chance="Bash",
    files={"orders.txt": "order 80  12.00  paid\norder 81  49.90  open\norder 82   7.50  paid\n"},
    settings={"model": MODEL},
)
