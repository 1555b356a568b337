"""What a store of packs needs of a directory or a bucket."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol


class Held(NamedTuple):
    """An object that is there."""

    key: str
    age_s: float
    """Seconds since it was last written, by the store's own clock where it has one."""


class Objects(Protocol):
    """Bytes by key. Keys are of a-z, 0-9, `-` and `/`.

    Raises (each method): `WorkspaceError`, if it cannot be reached, read or written; the text says what to do.
    """

    @property
    def where(self) -> str:
        """For people, without secrets."""
        ...

    async def find(self, key: str) -> bytes | None: ...

    async def create(self, key: str, data: bytes) -> bool:
        """Write what is not there yet. Durable when this returns; False: something was there, and is as it was."""
        ...

    def list(self, prefix: str) -> AsyncIterator[Held]:
        """All whose keys begin with `prefix`, which ends with `/`. What was written before this is called is in it."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Nothing happens to those that are not there."""
        ...
