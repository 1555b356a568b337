"""How long a turn rests before it is tried again."""

from typing import Final

from outlast.state import TurnState

RETRY_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0)
"""Pause before the next attempt after the harness failed, by the number of fruitless attempts."""
PROVIDER_RETRY_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Pause before the next attempt after the model provider failed, by how often it did so in a row."""


def pause_s(turn: TurnState, *, provider: bool, asked_s: float) -> float:
    """Seconds from a failure to the next attempt.

    Args:
        provider: it was the model provider that failed, and not the harness.
        asked_s: seconds that the provider asked for.
    """
    if provider:
        return max(asked_s, PROVIDER_RETRY_S[min(turn.refused, len(PROVIDER_RETRY_S) - 1)])
    return RETRY_S[min(max(0, turn.fruitless), len(RETRY_S) - 1)]
