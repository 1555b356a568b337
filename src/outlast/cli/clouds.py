"""The clouds that tenants may have their models from; their libraries are extras, imported when one is named."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from outlast.cli.lazy import loaded
from outlast.gateway.target import Upstream
from outlast.gateway.upstream import Unusable


class LoadedClouds:
    """See `outlast.gateway.tenant_keys.Clouds`. What was made once is given again: its tokens are good yet."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], Upstream] = {}

    def bedrock(self, region: str, key: str, profile: str, base_url: str) -> Upstream:
        def make() -> Upstream:
            signs = _loaded("aws:BedrockKey")(key) if key else _loaded("aws:chain_of")(profile)
            return _loaded("bedrock:Bedrock")(region, signs, base_url)

        return self._once(("bedrock", region, key, profile, base_url), make)

    def vertex(self, project: str, region: str, credentials: str, base_url: str) -> Upstream:
        def make() -> Upstream:
            find = partial(_loaded("vertex:credentials_in"), str(Path(credentials).expanduser()))
            return _loaded("vertex:Vertex")(project, region, base_url=base_url, find=find)

        return self._once(("vertex", project, region, credentials, base_url), make)

    def _once(self, about: tuple[str, ...], make: Callable[[], Upstream]) -> Upstream:
        if about not in self._made:
            try:
                self._made[about] = make()
            except ModuleNotFoundError:
                return Unusable(f"Run pip install 'outlast[{about[0]}]'.")
        return self._made[about]


def _loaded(target: str) -> Any:
    return loaded(f"outlast.gateway.{target}")
