"""What the readers and writers of all providers' APIs share; no SDK is needed for it."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from outlast.model import PieceKind
from outlast.records import Usage


class Nonsense(Exception):
    """The provider's answer is none."""


class Reader(Protocol):
    """Puts one answer together from the events of its stream."""

    @property
    def began(self) -> bool:
        """Whether anything of an answer came."""
        ...

    @property
    def usage(self) -> Usage | None:
        """What the provider has reported so far."""
        ...

    def read(self, event: Mapping[str, Any]) -> Iterable[tuple[PieceKind, str]]:
        """Take the next event; what is to be shown of it.

        Raises:
            Nonsense: it cannot stand there.
        """
        ...


def merged(body: Any, patch: Mapping[str, Any]) -> Any:
    """`body` with `patch` laid over it, as JSON Merge Patch has it (RFC 7396)."""
    result = dict(cast("Mapping[str, Any]", body)) if isinstance(body, Mapping) else dict[str, Any]()
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            inner = cast("Mapping[str, Any] | None", value if isinstance(value, Mapping) else None)
            result[key] = value if inner is None else merged(result.get(key), inner)
    return result
