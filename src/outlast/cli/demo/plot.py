"""What a story of the demo is made of: all that differs between a harness and another."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from outlast.cli.extras import Extra
from outlast.testing.models import Script, Usage

MODEL = "claude-sonnet-4-5"
STREAMED = (
    "Order 81 is open and stands at 49.90. I will charge its card once, with the amount from the {source}, and I will "
    "look at the ledger afterwards, because a card must never be charged twice for one order."
)
"""What the second answer says; it streams for about two seconds."""
GAP_S = 0.04


@dataclass(frozen=True, slots=True)
class Plot:
    """One story."""

    title: str
    """Who is killed, and how often."""
    agent: str
    """The agent's name."""
    cast: str
    """Where the workers find the agent, as MODULE:AGENT."""
    prompt: str
    script: Script
    """What the scripted model says."""
    last_chance: str
    """The tool after which the last kill comes, whether or not another worker stands by."""
    extra: Extra | None = None
    """What must be installed for it, as an extra of ours."""
    program: str = ""
    """What must be installed for it, as `outlast install` calls it."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """What lies in the directory that it works in; empty where it works in none."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    signal: str = ""
    """What it waits for in the midst of the turn, if it waits."""
    news: object = None
    """The value of that signal."""


def usage(fresh: int, said: int, cached: int) -> Usage:
    """What an answer costs: tokens read anew, written, and read from the provider's cache."""
    return Usage(input_tokens=fresh, output_tokens=said, cache_read_tokens=cached, cache_write_tokens=0)
