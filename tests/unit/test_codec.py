from collections.abc import Mapping, Sequence

import msgspec
import pytest

from outlast.codec import (
    DEPTH_LIMIT,
    INLINE_LIMIT,
    NODE,
    PAYLOAD_LIMIT,
    ModelRequest,
    Packer,
    decode_input,
    decode_records,
    encode_input,
    encode_records,
    read_messages,
    record_refs,
    request_of,
    to_json,
)
from outlast.errors import BadPayload, BlobBroken, FormatTooNew, LogBroken
from outlast.records import FORMAT, CallIntent, InputDropped, Payload, Prompt, SessionOpened, TurnParked
from outlast.squeezing import squeeze, unsqueeze


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def _intent(packer: Packer, request: ModelRequest) -> CallIntent:
    arguments = packer.payload(request, what="the request")
    return CallIntent(1, 1, "main", 0, "model", "m", arguments=arguments, match="hash")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("\ud800", "half of a surrogate pair", id="surrogate"),
        pytest.param({"\udfff": 1}, "half of a surrogate pair", id="surrogate-in-a-key"),
        pytest.param(object(), "unsupported", id="object"),
        pytest.param({(1, 2): 3}, "dicts", id="key"),
        pytest.param(10**5000, "digits", id="large-number"),
        pytest.param(_nested(100_000), "levels deep", id="very-deep"),
        pytest.param(_nested(3 * DEPTH_LIMIT), "levels deep", id="deep"),
        pytest.param("x" * PAYLOAD_LIMIT, "are more than", id="large"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_reason(value: object, reason: str) -> None:
    with pytest.raises(BadPayload, match=reason):
        to_json(value, what="the result")


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(BadPayload):
        to_json(value, what="the result")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_becomes_null(value: float) -> None:
    assert to_json([value], what="the result") == b"[null]"


def test_brackets_in_texts_are_no_depth() -> None:
    assert to_json(['["\\' * 1000], what="the result")


def test_what_could_be_written_is_read_back_on_a_deep_stack() -> None:
    record = TurnParked(1, "stuck", {"deep": _nested(DEPTH_LIMIT - 5)})
    body = encode_records([record])

    def read(frames: int) -> object:
        return read(frames - 1) if frames else decode_records(body, session="s", seq=1, format=FORMAT)

    assert read(400) == [record]


def test_a_record_that_cannot_be_written_is_refused() -> None:
    for settings in ({"model": object()}, {"model": "\ud800"}, {"model": _nested(3 * DEPTH_LIMIT)}):
        with pytest.raises(BadPayload, match="A record cannot be written down"):
            encode_records([SessionOpened("s", "agent", "scripted", settings)])


def test_a_newer_format_is_left_to_newer_code() -> None:
    with pytest.raises(FormatTooNew) as caught:
        decode_records(b"anything", session="s", seq=1, format=FORMAT + 1)
    assert (caught.value.found, caught.value.known) == (FORMAT + 1, FORMAT)


def test_a_field_that_a_later_release_added_is_passed_over() -> None:
    body = b'[{"is":"input_dropped","input":"in-1","reason":"why","added_later":[{}]}]'
    assert decode_records(body, session="s", seq=1, format=FORMAT) == [InputDropped("in-1", "why")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"\xff\xfe",
        b'[{"is":"no_such_record"}]',
        b'[{"is":"input_dropped"}]',
        b'[{"is":"snapshot","state":{"json":' + b"[" * 100_000 + b"]" * 100_000 + b"}}]",
        b"\x28\xb5\x2f\xfd",
        squeeze(encode_records([InputDropped("in-1", "why" * 200)]))[:-3],
    ],
)
def test_a_torn_or_foreign_body_is_a_broken_log(body: bytes) -> None:
    with pytest.raises(LogBroken, match="at commit 7"):
        decode_records(body, session="s", seq=7, format=FORMAT)


def test_a_torn_blob_says_so() -> None:
    with pytest.raises(BlobBroken):
        unsqueeze(squeeze(b"x" * 1000)[:-2])


def test_a_text_that_nobody_could_write_down_is_refused_before_it_is_sent() -> None:
    for text in ("\ud800", "x" * PAYLOAD_LIMIT):
        with pytest.raises(BadPayload):
            encode_input(Prompt(text))


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"kind":"no_such_input"}', b'{"kind":"prompt","x":' + b"[" * 99_999]
)
def test_an_input_that_nobody_can_read_says_so(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_input(body)


def test_a_large_value_becomes_a_blob_and_a_small_one_does_not() -> None:
    packer = Packer("default", set())
    assert packer.payload("x" * (INLINE_LIMIT - 2), what="it").ref == ""
    assert not packer.blobs
    large = packer.payload("x" * (INLINE_LIMIT - 1), what="it")
    assert (large.size, list(packer.blobs)) == (INLINE_LIMIT + 1, [large.ref])


def test_what_the_session_holds_is_not_given_again() -> None:
    first = Packer("default", set())
    first.request({"model": "m"}, ["one", "two"])
    second = Packer("default", set(first.blobs))
    second.request({"model": "m"}, ["one", "two", "three"])
    assert len(second.blobs) == 1


def test_two_tenants_name_the_same_bytes_otherwise() -> None:
    assert Packer("a", set()).blob(b"same") != Packer("b", set()).blob(b"same")


def test_a_part_of_a_request_that_cannot_be_written_is_refused() -> None:
    packer = Packer("default", set())
    for frame, messages in (({"system": "\ud800"}, []), ({}, ["\ud800"]), ({}, [_nested(3 * DEPTH_LIMIT)])):
        with pytest.raises(BadPayload):
            packer.request(frame, messages)


def test_the_world_is_told_of_every_blob_of_a_request() -> None:
    packer = Packer("default", set())
    messages = list(range(NODE * NODE + NODE + 3))
    intent = _intent(packer, packer.request({"model": "m"}, messages))
    request = request_of(intent)
    assert request is not None
    assert set(record_refs([intent])) == {
        request.frame,
        *request.nodes,
        *request.tail,
        *(name for level in request.upper for name in level),
    }
    assert [len(level) for level in (request.tail, request.nodes, *request.upper)] == [3, 1, 1]


def test_a_record_without_a_request_has_none() -> None:
    tool = CallIntent(
        1, 1, "main", 0, "tool", "refund", arguments=Payload(json=msgspec.Raw(b'{"frame":"x"}'))
    )
    for record in (tool, InputDropped("in-1", "why"), CallIntent(1, 1, "main", 0, "model", "m")):
        assert request_of(record) is None


def test_a_request_of_any_length_stands_in_its_record() -> None:
    packer = Packer("default", set())
    assert _intent(packer, packer.request({}, ["same"] * (NODE**3 - 1))).arguments.ref == ""


async def test_a_torn_conversation_says_so() -> None:
    async def torn(names: Sequence[str]) -> Mapping[str, bytes]:
        return dict.fromkeys(names, b"{")

    for request in (ModelRequest("frame"), ModelRequest("frame", nodes=("node",))):
        with pytest.raises(BlobBroken):
            await read_messages(request, torn)


def test_a_conversation_costs_its_new_text() -> None:
    """200 calls with 2 KB of new text each: what is stored grows with the text, not with the conversation."""
    held: set[str] = set()
    messages: list[object] = []
    stored: list[int] = []
    unique = 0
    for call in range(200):
        new = [{"role": role, "content": _noise(f"{call}{role}", 1024)} for role in ("assistant", "user")]
        unique += len(msgspec.json.encode(new))
        messages += new
        packer = Packer("default", held)
        body = encode_records(
            [_intent(packer, packer.request({"model": "m", "system": "x" * 4000}, messages))]
        )
        held.update(packer.blobs)
        stored.append(len(body) + sum(map(len, packer.blobs.values())))
    assert sum(stored) <= unique + 200 * 2000
    assert sum(stored[100:]) <= 1.2 * sum(stored[:100])


def _noise(seed: str, size: int) -> str:
    """Text that does not compress to nothing."""
    words = [Packer(seed, set()).blob(str(at).encode()) for at in range(size // 22 + 1)]
    return "".join(words)[:size]
