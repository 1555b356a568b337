"""What the models behind an HTTP API have in common, whoever's they are."""

from collections.abc import Mapping

from outlast.models.wire import Limits, Lines
from outlast.prices import Price


class HttpModel:
    """Who is asked, with which key, how long, at what price: the settings that both providers' models take.

    Args:
        name: the model.
        provider: whose API it speaks.
        api_key: None for what the provider's SDK finds by itself.
        base_url: None for what the provider's SDK finds by itself.
        max_tokens: the most that an answer may have, where its request names none.
        context_tokens: how much the model takes; for whoever compacts. 0: not known.
        headers: sent with each request. They are in no log.
        limits: how long to wait.
        prices: what tokens cost.
    """

    def __init__(  # noqa: PLR0913 - each keyword is a setting of its own
        self,
        name: str,
        *,
        provider: str,
        api_key: str | None,
        base_url: str | None,
        max_tokens: int,
        context_tokens: int,
        headers: Mapping[str, str] | None,
        limits: Limits | None,
        prices: Mapping[str, Price],
    ) -> None:
        self._name = name
        self._provider = provider
        self._api_key = api_key
        self._base_url = base_url
        self._max_tokens = max_tokens
        self._context_tokens = context_tokens
        self._headers = dict(headers or {})
        self._limits = limits or Limits()
        self._lines = Lines(self._limits)
        self._prices = prices

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._provider

    @property
    def context_tokens(self) -> int:
        return self._context_tokens
