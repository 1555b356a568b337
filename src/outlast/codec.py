"""Records to bytes and back; JSON values to payloads and blobs; conversations to content-addressed lists.

A body is the JSON list of its records, compressed (Zstandard, RFC 8878) when that saves bytes; the frame's magic
number tells which. Blobs are stored the same way under the hash of their plain bytes.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from outlast.errors import BadPayload, FormatTooNew, LogBroken
from outlast.ids import blob_hash
from outlast.records import FORMAT, AnyInput, AnyRecord, Payload
from outlast.records.events import LiveDelta

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

INLINE_LIMIT: Final = 8 * 1024
"""Bytes of JSON up to which a value stands in its record; longer ones become blobs."""
NODE: Final = 64
"""Messages per node of a conversation: a long list costs its new text and at most 63 hashes."""
PAYLOAD_LIMIT: Final = 32 * 1024 * 1024
"""Bytes of JSON that one value may have."""

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_WORTH: Final = 256
_LEVEL: Final = 3

_records = msgspec.json.Decoder(list[AnyRecord])
_input = msgspec.json.Decoder(AnyInput)
_delta = msgspec.json.Decoder(LiveDelta)
_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")


class ModelRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model request as a record holds it: hashes only, so that a conversation costs its new text.

    `nodes` name blobs that are JSON lists of exactly `NODE` message hashes; `tail` names the messages after them.
    `frame` is everything of the request but its messages.
    """

    frame: str
    nodes: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()


def to_json(value: object, *, what: str) -> bytes:
    """The JSON text of `value`.

    Raises:
        BadPayload: it is not JSON, holds text that is not Unicode, is nested too deeply, or is too large.
    """
    try:
        text = _encoder.encode(value)
    except UnicodeEncodeError:
        raise BadPayload(what=what, reason="it holds half of a surrogate pair, which is not Unicode text") from None
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise BadPayload(what=what, reason=str(error) or type(error).__name__) from None
    if len(text) > PAYLOAD_LIMIT:
        raise BadPayload(what=what, reason=f"{len(text):,} bytes of JSON are more than {PAYLOAD_LIMIT:,}")
    return text


def canonical(value: object) -> bytes:
    """JSON with sorted keys and no white space: equal values have equal bytes."""
    return _sorted.encode(value)


def squeeze(data: bytes) -> bytes:
    """`data`, compressed where that saves bytes."""
    if len(data) < _WORTH and not data.startswith(_MAGIC):
        return data
    small = zstd.compress(data, _LEVEL)
    return small if len(small) < len(data) or data.startswith(_MAGIC) else data


def unsqueeze(data: bytes) -> bytes:
    """What `squeeze` was given."""
    return zstd.decompress(data) if data.startswith(_MAGIC) else data


def encode_records(records: Sequence[AnyRecord]) -> bytes:
    return squeeze(_encoder.encode(records))


def decode_records(body: bytes, *, session: str, seq: int, format: int) -> list[AnyRecord]:  # noqa: A002 - the header's word
    """The records of a commit.

    Raises:
        FormatTooNew: it is written in a format this code does not read.
        LogBroken: it is not what an outlast of that format writes.
    """
    if format > FORMAT:
        raise FormatTooNew(session=session, found=format, known=FORMAT)
    try:
        return _records.decode(unsqueeze(body))
    except (msgspec.MsgspecError, zstd.ZstdError) as error:
        raise LogBroken(session=session, seq=seq, reason=str(error)) from None


def encode_input(value: AnyInput) -> bytes:
    return _encoder.encode(value)


def decode_input(body: bytes) -> AnyInput:
    return _input.decode(body)


def encode_delta(delta: LiveDelta) -> bytes:
    return _encoder.encode(delta)


def decode_delta(body: bytes) -> LiveDelta:
    return _delta.decode(body)


def record_refs(records: Iterable[AnyRecord]) -> tuple[str, ...]:
    """The hashes of every blob that `records` name, each once, in order."""
    found: dict[str, None] = {}
    for record in records:
        for field in _PAYLOAD_FIELDS.get(type(record), ()):
            payload = cast("Payload", getattr(record, field))
            if payload.ref:
                found[payload.ref] = None
        request = _request_of(record)
        if request is not None:
            found.update(dict.fromkeys((request.frame, *request.nodes, *request.tail)))
    return tuple(found)


def request_of(record: AnyRecord) -> ModelRequest | None:
    """The request of a model call's intent, None for every other record."""
    return _request_of(record)


class Packer:
    """Turns values into payloads and conversations into lists, and keeps the new blobs that they need.

    `held` are hashes the session already names: their bytes are not given again.
    """

    def __init__(self, tenant: str, held: set[str]) -> None:
        self._tenant = tenant
        self._held = held
        self.blobs: dict[str, bytes] = {}

    def blob(self, data: bytes) -> str:
        """Put `data` among the blobs; returns its hash."""
        name = blob_hash(self._tenant, data)
        if name not in self._held and name not in self.blobs:
            self.blobs[name] = squeeze(data)
        return name

    def payload(self, value: object, *, what: str) -> Payload:
        """A payload of any JSON value.

        Raises:
            BadPayload: it cannot be written as JSON.
        """
        return self.text(to_json(value, what=what))

    def text(self, json: bytes) -> Payload:
        """A payload of a JSON text."""
        if len(json) <= INLINE_LIMIT:
            return Payload(json=msgspec.Raw(json))
        return Payload(ref=self.blob(json), size=len(json))

    def request(self, frame: Mapping[str, Any], messages: Sequence[Any]) -> ModelRequest:
        """A model request as hashes: `frame` without its messages, and each message by itself."""
        names = [self.blob(canonical(message)) for message in messages]
        full = len(names) - len(names) % NODE
        nodes = tuple(self.blob(_encoder.encode(names[at : at + NODE])) for at in range(0, full, NODE))
        return ModelRequest(self.blob(canonical(frame)), nodes, tuple(names[full:]))


def _payload_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is Payload)


_PAYLOAD_FIELDS: Final = {kind: _payload_fields(kind) for kind in AnyRecord.__args__}


def _request_of(record: AnyRecord) -> ModelRequest | None:
    if getattr(record, "kind", "") != "model" or not getattr(record, "match", ""):
        return None
    arguments = cast("Payload", getattr(record, "arguments"))  # noqa: B009 - narrowed by the two lines above
    return msgspec.json.decode(arguments.json, type=ModelRequest) if not arguments.ref else None
