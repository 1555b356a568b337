"""Bytes by hash."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Blobs(Protocol):
    """Content-addressed bytes, scoped to the sessions whose commits or waiting inputs name them.

    They arrive with the commit or input that names them (`Commit.blobs`, `Input.blobs`) and are durable no
    later than it. The hash is `outlast.ids.blob_hash` of the tenant and the plain bytes; what a World stores
    under it may be encoded (compressed, encrypted), so a World never recomputes it.
    """

    async def get_many(self, session: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """The bytes of each hash.

        Raises:
            BlobUnknown: the session does not name such a blob, or its bytes are gone.
        """
        ...
