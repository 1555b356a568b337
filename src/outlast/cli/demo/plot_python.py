"""The story of a loop of one's own: what the scripted model says, and what the loop waits for."""

from typing import Final

from outlast.cli.demo.plot import GAP_S, STREAMED, Plot, usage
from outlast.cli.demo.props import PARCEL
from outlast.cli.extras import Extra
from outlast.testing.models import Script, Step, ToolUse

_STEPS: Final = (
    Step(
        text="I look the order up first.",
        tools=(ToolUse(name="find_order", input={"order": "81"}),),
        usage=usage(620, 74, 0),
    ),
    Step(
        text=STREAMED.format(source="order"),
        tools=(ToolUse(name="charge_card", input={"order": "81", "cents": 4990}),),
        usage=usage(120, 121, 620),
        gap_s=GAP_S,
    ),
    Step(
        text="I check what was really charged.",
        tools=(ToolUse(name="find_charges", input={"order": "81"}),),
        usage=usage(210, 63, 740),
    ),
    Step(
        text="It was charged once. Now I wait until the parcel is handed over.",
        tools=(ToolUse(name="wait_for_parcel"),),
        usage=usage(90, 52, 950),
    ),
    Step(
        text="Order 81 is paid: 49.90, charged exactly once. Its parcel is on its way to Oslo.",
        usage=usage(80, 40, 1040),
    ),
)

PLOT: Final = Plot(
    title="A turn of a loop in Python, two workers, three kills, and a wait that holds no worker.",
    agent="demo-loop",
    cast="outlast.cli.demo.cast_python:agent",
    extra=Extra("anthropic", ("anthropic", "httpx2"), "Anthropic's SDK", "some 30 MB"),
    prompt=(
        "Order 81 is not paid yet. Look it up, charge its card with charge_card, make sure with find_charges that it "
        "was charged exactly once, wait for its parcel with wait_for_parcel, and tell me. [script:demo]"
    ),
    script=Script(conversations={"demo": _STEPS}),
    last_chance="find_charges",
    signal=PARCEL,
    news={"parcel": 4711, "to": "Oslo"},
)
