"""An agent that looks through the newest issues every night, and asks a person where it is not sure.

    export ANTHROPIC_API_KEY=…
    outlast run examples.nightly:triage "Look through the issues" --session triage --detach
    outlast schedule triage "Look through the issues" --cron "30 2 * * 1-5" --zone Europe/Berlin --id nightly
    OUTLAST_NOTIFY_COMMAND="notify-send outlast" outlast work examples.nightly:triage

It knows since when to look from the night before. Whoever is to answer is told that the turn waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from outlast import Agent, ToolIO, tool
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.model import Message, Model, user
from outlast.models.anthropic import Anthropic


@dataclass
class Tracker:
    """Where issues are kept; a stand-in for a real one."""

    titles: list[str] = field(default_factory=list[str])
    labels: dict[str, str] = field(default_factory=dict[str, str])


tracker = Tracker()


@tool(replay="safe")
async def new_issues(io: ToolIO) -> list[str]:
    """The issues that nobody has labelled."""
    return [title for title in tracker.titles if title not in tracker.labels]


@tool(replay="safe")
async def label(io: ToolIO, title: str, name: str) -> str:
    """Label an issue; the same label again changes nothing."""
    tracker.labels[title] = name
    return f"{title}: {name}"


def looking_through(model: Model) -> LoopFunction:
    """The loop: the model says a label for each issue, a person does where it says `unsure`."""

    async def look_through(io: IO, prompt: str) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for title in await io.tool(new_issues):
            ask: Sequence[Message] = [user(f"{prompt}. In one word, bug, wish or unsure: {title}")]
            word = (await io.model(model, ask)).message.text.strip()
            if word == "unsure":
                word = await io.ask(f"What is this? {title}", choices=["bug", "wish"])
            await io.tool(label, title=title, name=word)
            said[title] = word
        return said

    return look_through


def triage_of(model: Model) -> Agent:
    """The agent that a model speaks for."""
    return Agent("triage", Loop(looking_through(model)), tools=[new_issues, label])


triage = triage_of(Anthropic("claude-sonnet-5-5"))
