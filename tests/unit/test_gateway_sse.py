from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.gateway.sse import Cutter, Frame, Malformed, frame

STREAM = (
    b"event: a\ndata: {}\n\n"
    b": only a comment\n\n"
    b"event: b\r\ndata: one\r\ndata:two\r\n\r\n"
    b"data: no name\n\n"
    b"\n\n"
    b"event: \xc3\xa4\ndata: \xe2\x82\xac\n\n"
)


def cut(chunks: list[bytes]) -> list[Frame]:
    cutter = Cutter(limit=1000)
    return [found for chunk in chunks for found in cutter.feed(chunk)]


def test_a_frame_keeps_its_own_bytes() -> None:
    assert b"".join(found.raw for found in cut([STREAM])) == STREAM


def test_a_frame_has_its_name_and_all_its_lines_of_data() -> None:
    frames = cut([STREAM])
    assert [(found.event, found.data) for found in frames[:4]] == [
        ("a", b"{}"),
        ("", None),
        ("b", b"one\ntwo"),
        ("", b"no name"),
    ]
    assert frames[-1].event == "ä"


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_however_a_stream_is_chunked_its_frames_are_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(edges)]
    assert cut(chunks) == cut([STREAM])


def test_a_frame_without_its_blank_line_waits_for_it() -> None:
    cutter = Cutter(limit=1000)
    assert cutter.feed(b"event: a\ndata: {}\n") == []
    assert [found.event for found in cutter.feed(b"\n")] == ["a"]


def test_a_lone_carriage_return_is_refused_since_a_client_might_see_a_frame_end_there() -> None:
    with pytest.raises(Malformed):
        cut([b"event: a\rdata: {}\r\revent: b\ndata: {}\n\n"])


def test_a_frame_that_never_ends_is_refused() -> None:
    with pytest.raises(Malformed):
        cut([b"data: " + b"x" * 2000])


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(Malformed):
        cut([b"event: \xff\ndata: {}\n\n"])


def test_a_made_frame_reads_as_itself() -> None:
    (found,) = cut([frame("ping", b"{}")])
    assert (found.event, found.data) == ("ping", b"{}")
