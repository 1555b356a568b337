"""What model calls cost at list price. Replaceable: subscriptions, clouds and contracts have prices of their own.

What a provider reports itself goes before the table. A file of one's own (`read_prices`) goes before what stands here.

Figures: the pricing pages of the providers' APIs, Anthropic's as of November 2026, OpenAI's as of October 2026, in US
dollars per million tokens, standard tier, short prompts. Batches, fast modes, server-side tools, and longer prompts at
another rate are not in it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, cast

import msgspec

from outlast.errors import BadSettings
from outlast.records import Usage
from outlast.settings import Settings

_DATE: Final = re.compile(r"-\d{4}-\d{2}-\d{2}$")


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


def _openai_price(input_usd: float, output_usd: float, read_usd: float, write_usd: float = 0.0) -> Price:
    """A price; older models ask no more for what they write to their cache."""
    written = write_usd or input_usd
    return Price(input_usd, output_usd, read_usd, written, written)


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
"""Anthropic's, by prefix of the model's name; the longest that fits counts."""

OPENAI_PRICES: Final[Mapping[str, Price]] = {
    "gpt-6-astra": _openai_price(10, 50, 1, 12.5),
    "gpt-6.1-sol": _openai_price(2, 10, 0.1, 2.5),
    "gpt-6-sol": _openai_price(2, 10, 0.2, 2.5),
    "gpt-6-luna": _openai_price(0.1, 0.5, 0.01, 0.125),
    "gpt-5.6-sol": _openai_price(4, 20, 0.4, 5),
    "gpt-5.6-terra": _openai_price(2, 12, 0.2, 2.5),
    "gpt-5.6-luna": _openai_price(0.2, 1.2, 0.02, 0.25),
    "gpt-5.5": _openai_price(5, 30, 0.5),
    "gpt-5.4": _openai_price(2.5, 15, 0.25),
    "gpt-5.4-mini": _openai_price(0.75, 4.5, 0.075),
    "gpt-5.4-nano": _openai_price(0.2, 1.25, 0.02),
    "gpt-4.1": _openai_price(2, 8, 0.5),
    "gpt-4.1-mini": _openai_price(0.4, 1.6, 0.1),
    "gpt-4o": _openai_price(2.5, 10, 1.25),
    "gpt-4o-mini": _openai_price(0.15, 0.6, 0.075),
}
"""OpenAI's, by the model's name without its date: siblings such as `gpt-5.5-pro` cost otherwise."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """What the models of each family of APIs cost."""

    anthropic: Mapping[str, Price] = field(default_factory=lambda: LIST_PRICES)
    openai: Mapping[str, Price] = field(default_factory=lambda: OPENAI_PRICES)


_Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: _Dollars
    output: _Dollars
    cache_read: _Dollars | None = None
    cache_write: _Dollars | None = None
    cache_write_1h: _Dollars | None = None

    @property
    def price(self) -> Price:
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        return Price(
            self.input,
            self.output,
            read,
            written,
            written if self.cache_write_1h is None else self.cache_write_1h,
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    alone: bool = False
    anthropic: dict[str, _Row] = {}
    openai: dict[str, _Row] = {}


def read_prices(file: Path) -> PriceTable:
    """The table of a file of one's own, TOML or (`.json`) JSON, before what stands here.

    It holds tables `anthropic` and `openai`, in each a table by model with `input` and `output`, and if they cost
    otherwise than the input `cache_read`, `cache_write` and `cache_write_1h`: US dollars per million tokens. With
    `alone = true` nothing of what stands here counts, and a model that the file does not name costs nothing.

    Raises:
        BadSettings: it cannot be read, or says something else.
    """
    try:
        data = file.read_bytes()
        decode = msgspec.json.decode if file.suffix == ".json" else msgspec.toml.decode
        found = decode(data, type=_File)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise BadSettings(
            name="prices_file",
            value=str(file),
            reason=_why(error),
            source="the environment or your own outlast.toml",
        ) from None
    ours = PriceTable({}, {}) if found.alone else PriceTable()
    return PriceTable(
        {**ours.anthropic, **{model: row.price for model, row in found.anthropic.items()}},
        {**ours.openai, **{model: row.price for model, row in found.openai.items()}},
    )


def prices_of(settings: Settings) -> PriceTable:
    """What models cost, as the settings have it.

    Raises:
        BadSettings
    """
    return read_prices(Path(settings.prices_file).expanduser()) if settings.prices_file else PriceTable()


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read ({error.strerror or error})"
    if isinstance(error, msgspec.ValidationError):
        return f"{str(error).rstrip('.')}. A model has `input` and `output`, in dollars per million tokens"
    return f"it is no TOML, or as `.json` no JSON ({error})"


def find_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of `model` by the longest prefix, None for one that is not in the table."""
    fitting = [prefix for prefix in prices if model.startswith(prefix)]
    return prices[max(fitting, key=len)] if fitting else None


def find_dated_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of `model`, with a date at its end or without; None for one that is not in the table."""
    return prices.get(model) or prices.get(_DATE.sub("", model))


def anthropic_usage(said: Mapping[str, Any], price: Price | None) -> Usage:
    """The `usage` of an answer of Anthropic's Messages API."""
    read, output = _count(said, "cache_read_input_tokens"), _count(said, "output_tokens")
    fresh, written = _count(said, "input_tokens"), _count(said, "cache_creation_input_tokens")
    long = _count(_inner(said, "cache_creation"), "ephemeral_1h_input_tokens")
    return _priced(said, Usage(fresh, output, read, written), price, kept_long=long)


def openai_usage(said: Mapping[str, Any], price: Price | None) -> Usage:
    """The `usage` of an answer of OpenAI's APIs, which count what was cached among the input, and thinking as output.

    Chat Completions speaks of a prompt and a completion, Responses of input and output.
    """
    given, made = ("input", "output") if "input_tokens" in said else ("prompt", "completion")
    details = _inner(said, f"{given}_tokens_details")
    read, written = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    fresh = max(0, _count(said, f"{given}_tokens") - read - written)
    return _priced(said, Usage(fresh, _count(said, f"{made}_tokens"), read, written), price)


def _priced(said: Mapping[str, Any], usage: Usage, price: Price | None, *, kept_long: int = 0) -> Usage:
    """What the call cost: by the provider's own word where it gives one, in US dollars as OpenRouter does."""
    told = said.get("cost")
    if isinstance(told, int | float) and not isinstance(told, bool) and math.isfinite(told) and told >= 0:
        return usage + Usage(cost_usd=float(told))
    if price is None:
        return usage
    short = max(0, usage.cache_write_tokens - kept_long)
    cost = usage.input_tokens * price.input + usage.output_tokens * price.output
    cost += usage.cache_read_tokens * price.cache_read
    cost += short * price.cache_write + kept_long * price.cache_write_1h
    return usage + Usage(cost_usd=round(cost / 1_000_000, 9))


def _inner(said: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner: object = said.get(key)
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}


def _count(said: Mapping[str, Any], key: str) -> int:
    value: object = said.get(key)
    return value if isinstance(value, int) and value > 0 else 0
