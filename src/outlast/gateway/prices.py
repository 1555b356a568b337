"""What model calls cost at list price. Replaceable: subscriptions, clouds and contracts have prices of their own.

Figures: Anthropic's pricing page for its API, as of November 2026, in US dollars per million tokens, standard tier,
short prompts. Batches, fast modes, server-side tools, and longer prompts at another rate are not in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    """Kept for five minutes."""
    cache_write_1h: float


def _price(input_usd: float, output_usd: float, read: float = 0.1) -> Price:
    """A price with the usual ratios: cache writes at 1.25 and 2 times the input, reads at `read` times."""
    return Price(input_usd, output_usd, input_usd * read, input_usd * 1.25, input_usd * 2)


LIST_PRICES: Final[Mapping[str, Price]] = {
    "claude-fable-5-1": _price(10, 50, 0.025),
    "claude-mythos-5-1": _price(10, 50, 0.025),
    "claude-fable-5": _price(10, 50),
    "claude-mythos-5": _price(10, 50),
    "claude-opus-5-5": _price(4, 20, 0.05),
    "claude-opus-5": _price(5, 25),
    "claude-opus-4": _price(5, 25),
    "claude-opus-4-0": _price(15, 75),
    "claude-opus-4-1": _price(15, 75),
    "claude-opus-4-2025": _price(15, 75),
    "claude-sonnet-5-5": _price(2, 10, 0.05),
    "claude-sonnet-5": _price(2, 10),
    "claude-sonnet-4": _price(3, 15),
    "claude-3-7-sonnet": _price(3, 15),
    "claude-haiku-5-5": _price(0.1, 0.5),
    "claude-haiku-4": _price(1, 5),
    "claude-3-5-haiku": _price(0.8, 4),
}
"""By prefix of the model's name; the longest that fits counts."""


def find_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of `model`, None for one that is not in the table."""
    fitting = [prefix for prefix in prices if model.startswith(prefix)]
    return prices[max(fitting, key=len)] if fitting else None
