"""Which pydantic-ai is here, and which it was tested with."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

TESTED: Final = "2.68.0"
_UNTESTED: Final = (
    "pydantic-ai {here} is installed; outlast is tested with {tested}. A turn that was begun with another version may "
    "be parked as diverged, where this one asks its models otherwise."
)


def here() -> str:
    """The version that is installed."""
    return version("pydantic-ai-slim")


def warnings() -> Sequence[str]:
    """What to know about the version that is installed."""
    if here() == TESTED:
        return ()
    return (_UNTESTED.format(here=here(), tested=TESTED),)
