"""Records to bytes and back; JSON values to payloads and blobs; conversations to content-addressed lists.

A body is the JSON list of its records, compressed when that saves bytes (`outlast.squeezing`). Blobs are stored the
same way under the hash of their plain bytes.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from outlast.errors import BadPayload, BlobBroken, FormatTooNew, LogBroken
from outlast.ids import blob_hash
from outlast.mirrored import FileState
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyInput,
    AnyRecord,
    CallIntent,
    Payload,
    PromptQueued,
    Snapshot,
    TurnOpened,
)
from outlast.records.events import LiveDelta
from outlast.squeezing import squeeze, unsqueeze

_Value = TypeVar("_Value")

INLINE_LIMIT: Final = 8 * 1024
"""Bytes of JSON up to which a value stands in its record; longer ones become blobs."""
ATTACHING: Final = 2
"""The format of prompts with attachments."""
NODE: Final = 16
"""Names per node of a conversation: a long list costs its new text and at most 15 names for each level of nodes. Names
do not compress, and half a node of them stands in every request; smaller nodes mean more levels to read."""
PAYLOAD_LIMIT: Final = 32 * 1024 * 1024
"""Bytes of JSON that one value may have."""
DEPTH_LIMIT: Final = 200
"""Lists and objects within one another. Far below what a decoder can walk, however deep the stack it is called on:
what could be written can be read."""

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_TOO_DEEP: Final = f"it is nested more than {DEPTH_LIMIT} levels deep"
_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))


class _Tagged(msgspec.Struct, frozen=True):
    """What every input is, of whichever outlast."""

    kind: str


_records = msgspec.json.Decoder(list[AnyRecord])
_input = msgspec.json.Decoder(AnyInput)
_tagged = msgspec.json.Decoder(_Tagged)
_delta = msgspec.json.Decoder(LiveDelta)
_node = msgspec.json.Decoder(list[str])
_frame = msgspec.json.Decoder(dict[str, Any])
_message = msgspec.json.Decoder(Any)
_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")


class ModelRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model request as a record holds it: hashes only, so that a conversation costs its new text.

    In the order of the conversation: `upper` from its last level to its first, then `nodes`, then `tail`. Every level
    holds fewer than `NODE` names, so a request is small whatever the length of its conversation.
    """

    frame: str
    """The blob with everything of the request but its messages."""
    nodes: tuple[str, ...] = ()
    """Blobs that are JSON lists of exactly `NODE` names of messages."""
    tail: tuple[str, ...] = ()
    """The messages after them, each a blob."""
    upper: tuple[tuple[str, ...], ...] = ()
    """Level by level: blobs that are JSON lists of exactly `NODE` names of blobs of the level below; the level below
    the first is that of `nodes`."""


GetBlobs: TypeAlias = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]
"""Stored bytes by name, as `outlast.world.Blobs.get_many` gives them for one session."""


def to_json(value: object, *, what: str) -> bytes:
    """The JSON text of `value`; NaN and the infinities become null, as ECMAScript's `JSON.stringify` has it.

    Raises:
        BadPayload: it is not JSON, holds text that is not Unicode, is nested too deeply, or is too large.
    """
    return _bounded(_encode(_encoder, value, what), what)


def canonical(value: object) -> bytes:
    """The one JSON text of `value`: keys sorted, no white space.

    Raises:
        BadPayload: it is not JSON, or holds text that is not Unicode.
    """
    return _encode(_sorted, value, "The value")


def _encode(encoder: msgspec.json.Encoder, value: object, what: str) -> bytes:
    try:
        return encoder.encode(value)
    except UnicodeEncodeError:
        reason = "it holds half of a surrogate pair, which is not Unicode text"
    except RecursionError:
        reason = _TOO_DEEP
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error) or type(error).__name__
    raise BadPayload(what=what, reason=reason)


def _bounded(text: bytes, what: str) -> bytes:
    if len(text) > PAYLOAD_LIMIT:
        raise BadPayload(what=what, reason=f"{len(text):,} bytes of JSON are more than {PAYLOAD_LIMIT:,}")
    return _shallow(text, what)


def _shallow(text: bytes, what: str) -> bytes:
    if _too_deep(text):
        raise BadPayload(what=what, reason=_TOO_DEEP)
    return text


def _too_deep(text: bytes) -> bool:
    """Whether lists and objects stand more than `DEPTH_LIMIT` deep; between that and its double either may be said."""
    # A text that is one string, as most results are, holds no brackets that count, however many stand in it.
    if text.startswith(b'"') or text.count(b"[") + text.count(b"{") <= DEPTH_LIMIT:
        return False
    brackets = _STRING.sub(b"", text).translate(None, _NO_BRACKET)
    for _ in range(DEPTH_LIMIT):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def encode_record(record: AnyRecord) -> bytes:
    """The JSON text of one record.

    Raises:
        BadPayload: settings, evidence or a text in it is not JSON.
    """
    return _encode(_encoder, record, "A record")


def encode_records(records: Sequence[AnyRecord]) -> bytes:
    """The body of a commit.

    Raises:
        BadPayload: settings, evidence or a text in a record is not JSON.
    """
    return squeeze(_shallow(_encode(_encoder, records, "A record"), "A record"))


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
    except (msgspec.MsgspecError, BlobBroken, RecursionError) as error:
        raise LogBroken(session=session, seq=seq, reason=str(error)) from None


def format_of(records: Iterable[AnyRecord]) -> int:
    """The oldest format in which these can be written: who reads less leaves their session alone."""
    newer = (isinstance(record, PromptQueued | TurnOpened) and record.attachments for record in records)
    return ATTACHING if any(newer) else PLAIN


def encode_input(value: AnyInput) -> bytes:
    """The body of an input.

    Raises:
        BadPayload: its text is not Unicode, or too long.
    """
    return _bounded(_encode(_encoder, value, "The text"), "The text")


def decode_input(body: bytes) -> AnyInput:
    """What `encode_input` was given.

    Raises:
        msgspec.MsgspecError: nobody can read it, or only a newer outlast (`is_newer_input`).
    """
    try:
        return _input.decode(body)
    except RecursionError:
        raise msgspec.DecodeError(_TOO_DEEP) from None


def read_input(body: bytes) -> AnyInput | None:
    """The input of which `body` is stored; None if it cannot be read here."""
    try:
        return decode_input(unsqueeze(body))
    except (msgspec.MsgspecError, BlobBroken):
        return None


def is_newer_input(body: bytes) -> bool:
    """Whether a stored body that cannot be read here is an input all the same: one that a newer outlast wrote."""
    try:
        _tagged.decode(unsqueeze(body))
    except (msgspec.MsgspecError, BlobBroken, RecursionError):
        return False
    return True


def encode_delta(delta: LiveDelta) -> bytes:
    """The body of a delta."""
    return _encoder.encode(delta)


def decode_delta(body: bytes) -> LiveDelta:
    """What `encode_delta` was given.

    Raises:
        msgspec.MsgspecError: nobody can read it.
    """
    return _delta.decode(body)


def record_refs(records: Iterable[AnyRecord]) -> tuple[str, ...]:
    """The hashes of every blob that `records` name, each once, in order."""
    found: dict[str, None] = {}
    for record in records:
        for field in _PAYLOAD_FIELDS.get(type(record), ()):
            payload = cast("Payload", getattr(record, field))
            if payload.ref:
                found[payload.ref] = None
        if isinstance(record, PromptQueued | TurnOpened):
            found.update((one.ref, None) for one in record.attachments)
        request = request_of(record)
        if request is not None:
            levels = (*reversed(request.upper), request.nodes, request.tail)
            found.update(dict.fromkeys((request.frame, *(name for level in levels for name in level))))
        if isinstance(record, Snapshot):
            for shelf in (*record.kept.calls.values(), *record.kept.files.values()):
                found.update(dict.fromkeys(name for level in shelf.levels for name in level))
    return tuple(found)


def request_of(record: AnyRecord) -> ModelRequest | None:
    """The request of a model call's intent; None for a record that holds none."""
    if not isinstance(record, CallIntent) or record.kind != "model" or record.arguments.ref:
        return None
    try:
        return msgspec.json.decode(record.arguments.json, type=ModelRequest)
    except msgspec.ValidationError:
        return None


async def read_files(
    files: Mapping[str, FileState], read: Callable[[Payload], Awaitable[Sequence[str]]]
) -> Mapping[str, Sequence[str]]:
    """The lines of mirrored files, by path; `read` gives those of a piece."""
    found: dict[str, Sequence[str]] = {}
    for name, file in files.items():
        pieces = await asyncio.gather(*map(read, file.pieces))
        found[name] = [
            line for piece, count in zip(pieces, file.counts, strict=True) for line in piece[:count]
        ]
    return found


async def read_messages(request: ModelRequest, get_blobs: GetBlobs) -> tuple[dict[str, Any], list[Any]]:
    """The frame and the messages of a request, in as many round trips as it has levels.

    Raises:
        BlobBroken: a blob is not what `Packer.request` wrote.
    """
    names: list[str] = []
    for level in (*reversed(request.upper), request.nodes):
        nodes = await _values([*names, *level], get_blobs, _node)
        names = [name for node in nodes for name in node]
    frames = await _values([request.frame], get_blobs, _frame)
    return frames[0], await _values([*names, *request.tail], get_blobs, _message)


async def _values(
    names: Sequence[str], get_blobs: GetBlobs, decoder: "msgspec.json.Decoder[_Value]"
) -> list[_Value]:
    """The JSON values of blobs, in order; each is fetched once, however often it is named."""
    if not names:
        return []
    unique = list(dict.fromkeys(names))
    found = await get_blobs(unique)
    try:
        values = {name: decoder.decode(unsqueeze(found[name])) for name in unique}
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BlobBroken(reason=str(error)) from None
    return [values[name] for name in names]


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
        if not self._has(name):
            self.blobs[name] = squeeze(data)
        return name

    def _has(self, name: str) -> bool:
        return name in self._held or name in self.blobs

    def payload(self, value: object, *, what: str) -> Payload:
        """A payload of any JSON value.

        Raises:
            BadPayload: it cannot be written as JSON.
        """
        return self.text(to_json(value, what=what))

    def text(self, json: bytes, *, apart: bool = False) -> Payload:
        """A payload of a JSON text; with `apart` it stands behind a blob, however short it is."""
        if len(json) <= INLINE_LIMIT and not apart:
            return Payload(json=msgspec.Raw(json))
        return Payload(ref=self.blob(json), size=len(json))

    def request(self, frame: Mapping[str, Any], messages: Sequence[Any]) -> ModelRequest:
        """A model request as hashes: `frame` without its messages, and each message by itself.

        Raises:
            BadPayload: a part of it cannot be written as JSON.
        """
        names = [self._part(message, "A message of the request") for message in messages]
        levels: list[tuple[str, ...]] = []
        while names:
            full = len(names) - len(names) % NODE
            levels.append(tuple(names[full:]))
            names = [self.blob(_encoder.encode(names[at : at + NODE])) for at in range(0, full, NODE)]
        tail, nodes, *upper = [*levels, (), ()]
        return ModelRequest(
            self._part(frame, "The frame of the request"), nodes, tail, tuple(upper[: len(levels) - 2])
        )

    def _part(self, value: object, what: str) -> str:
        text = _encode(_sorted, value, what)
        name = blob_hash(self._tenant, text)
        if not self._has(name):  # else it was found good before, as most of a request was
            self.blobs[name] = squeeze(_bounded(text, what))
        return name


def _payload_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is Payload)


_PAYLOAD_FIELDS: Final = {kind: _payload_fields(kind) for kind in AnyRecord.__args__}
