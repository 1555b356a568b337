"""A coding agent that needs no machine: its files are in the session's log, and so outlive whoever works on them.

pip install "outlast[anthropic,virtual]"
export ANTHROPIC_API_KEY=…
outlast run examples.tidy:tidy "Write a change log of notes.txt, newest first" --workspace virtual
"""

from outlast import Agent
from outlast.adapters.assistant import Assistant
from outlast.model import Model
from outlast.models.anthropic import Anthropic
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.virtual import virtual


def tidy_of(model: Model) -> Agent:
    """The agent, with this model."""
    return Agent(
        "tidy",
        Assistant(model, "You keep files in order. Look before you write, and read what you have written."),
        tools=workspace_tools(),
        workspace=virtual({"notes.txt": "v1 first\nv2 prices\n"}),
    )


tidy = tidy_of(Anthropic("claude-sonnet-5-5"))
