"""What an attempt reads of its log: the values of payloads, wherever they stand."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from outlast.engine.writer import Writer
from outlast.records import Payload
from outlast.squeezing import unsqueeze


class Reading:
    """Of one attempt, by its writer, which has what is not in the World yet."""

    writer: Writer

    async def value(self, payload: Payload) -> Any:
        """The JSON value of a payload, fetched if it is behind a blob."""
        return msgspec.json.decode(await self.text(payload))

    async def values(self, payloads: Sequence[Payload]) -> list[Any]:
        """The JSON values of payloads, in order; those behind blobs are fetched together."""
        names = list(dict.fromkeys(payload.ref for payload in payloads if payload.ref))
        found: Mapping[str, bytes] = await self.blobs(names) if names else {}
        texts = (unsqueeze(found[one.ref]) if one.ref else bytes(one.json) for one in payloads)
        return [msgspec.json.decode(text) for text in texts]

    async def text(self, payload: Payload) -> bytes:
        """The JSON text of a payload."""
        if not payload.ref:
            return bytes(payload.json)
        found = await self.blobs([payload.ref])
        return unsqueeze(found[payload.ref])

    async def blobs(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The stored bytes of blobs, also of those that are not in the World yet."""
        return await self.writer.blobs(names)
