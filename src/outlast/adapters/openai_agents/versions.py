"""Which OpenAI Agents SDK is here, and which it was tested with."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

TESTED: Final = "0.24.0"
_UNTESTED: Final = (
    "openai-agents {here} is installed; outlast is tested with {tested}. A turn that was begun with another version "
    "may be parked as diverged, where this one asks its models otherwise."
)


def here() -> str:
    """The version that is installed."""
    return version("openai-agents")


def warnings() -> Sequence[str]:
    """What to know about the version that is installed."""
    return () if here() == TESTED else (_UNTESTED.format(here=here(), tested=TESTED),)
