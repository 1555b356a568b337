"""What is written is read back, and nothing that is stored can make a reader fail otherwise than by saying so."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.codec import (
    Packer,
    canonical,
    decode_delta,
    decode_input,
    decode_records,
    encode_delta,
    encode_input,
    encode_records,
    read_messages,
    record_refs,
    to_json,
)
from outlast.errors import BadPayload, BlobBroken, LogBroken
from outlast.records import AnyInput, AnyRecord, Payload
from outlast.records.events import LiveDelta, face
from outlast.squeezing import squeeze, unsqueeze
from tests.property.strategies import inputs, records, structs, values

MAGIC = b"\x28\xb5\x2f\xfd"
bodies = st.binary(max_size=400) | st.binary(max_size=60).map(lambda data: data * 30)


@given(st.lists(records, max_size=4))
def test_records_are_read_back_as_they_were(written: list[AnyRecord]) -> None:
    body = encode_records(written)
    assert decode_records(body, session="s", seq=1, format=1) == written


@given(records)
def test_every_record_has_a_face_that_watchers_can_be_sent(record: AnyRecord) -> None:
    event = face(record, "1.0", 3)
    assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event


@given(inputs)
def test_inputs_are_read_back_as_they_were(written: AnyInput) -> None:
    assert decode_input(encode_input(written)) == written


@given(structs(LiveDelta))
def test_deltas_are_read_back_as_they_were(written: LiveDelta) -> None:
    assert decode_delta(encode_delta(written)) == written


@given(bodies | bodies.map(lambda data: MAGIC + data))
def test_what_was_squeezed_is_unsqueezed_whatever_it_looks_like(data: bytes) -> None:
    small = squeeze(data)
    assert unsqueeze(small) == data
    assert len(small) <= len(data) or data.startswith(MAGIC)


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: MAGIC + data), st.data())
def test_bytes_that_nobody_wrote_are_a_broken_log_and_nothing_worse(junk: bytes, data: st.DataObject) -> None:
    body = bytearray(encode_records([data.draw(records)]))
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    for torn in (junk, bytes(body), bytes(body[: len(body) // 2])):
        with contextlib.suppress(LogBroken):
            decode_records(torn, session="s", seq=1, format=1)
        with contextlib.suppress(msgspec.MsgspecError):
            decode_input(torn)
        with contextlib.suppress(BlobBroken):
            unsqueeze(torn)


@given(values)
def test_a_value_is_read_back_inline_or_from_its_blob(value: object) -> None:
    packer = Packer("default", set())
    payload = packer.payload(value, what="it")
    assert payload.value() == value
    large = packer.payload([value, "x" * 9000], what="it")
    assert msgspec.json.decode(unsqueeze(packer.blobs[large.ref])) == [value, "x" * 9000]
    assert large.size == len(to_json([value, "x" * 9000], what="it"))


@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_equal_objects_have_one_canonical_text(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical(turned) == canonical(value)
    assert msgspec.json.decode(canonical(value)) == value


class _Opaque:
    pass


@given(
    st.recursive(
        st.text("ab\ud800\x00", max_size=3)
        | st.floats()
        | st.integers()
        | st.builds(_Opaque)
        | st.binary(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.none(), inner, max_size=2)
        ),
    )
)
def test_whatever_a_tool_returns_is_json_or_a_clear_error(value: object) -> None:
    with contextlib.suppress(BadPayload):
        msgspec.json.decode(to_json(value, what="the result"))


@given(records)
def test_every_blob_that_a_record_names_is_told_to_the_world(record: AnyRecord) -> None:
    payloads = [value for value in _fields(record) if isinstance(value, Payload)]
    assert {payload.ref for payload in payloads if payload.ref} <= set(record_refs([record]))


def _fields(record: AnyRecord) -> list[object]:
    return [getattr(record, name) for name in record.__struct_fields__]


class _Store:
    """Blobs as a World keeps them, counting round trips."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.trips = 0

    async def get_many(self, hashes: Sequence[str]) -> Mapping[str, bytes]:
        self.trips += 1
        assert len(set(hashes)) == len(hashes)
        return {name: self.blobs[name] for name in hashes}


@given(
    st.dictionaries(st.text(max_size=4), values, max_size=3),
    st.lists(values, max_size=5),
    st.sampled_from([0, 1, 58, 59, 60, 63, 64, 65, 127, 128, 200]),
)
async def test_a_conversation_is_read_back_as_it_was(
    frame: dict[str, Any], first: list[Any], more: int
) -> None:
    messages = [*first, *({"n": number} for number in range(more))]
    packer = Packer("default", set())
    request = packer.request(frame, messages)
    store = _Store()
    store.blobs.update(packer.blobs)
    assert await read_messages(request, store.get_many) == (frame, messages)
    assert store.trips <= 3


@pytest.mark.parametrize("count", [4095, 4096, 4097, 9000, pytest.param(262_145, marks=pytest.mark.full)])
async def test_a_long_conversation_is_read_back_as_it_was(count: int) -> None:
    messages = list(range(count))
    packer = Packer("default", set())
    request = packer.request({}, messages)
    store = _Store()
    store.blobs.update(packer.blobs)
    assert await read_messages(request, store.get_many) == ({}, messages)
    assert store.trips <= 6
