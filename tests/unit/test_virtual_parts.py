"""Parts of a virtual workspace that need no shell: what is kept of output, what is told, what is described."""

import base64

import pytest

from outlast.errors import BadInput
from outlast.workspaces.virtual import virtual
from outlast.workspaces.virtual.description import FILES_BYTES
from outlast.workspaces.virtual.notes import CUT, ENDLESS, LOST, RANDOM, notes
from outlast.workspaces.virtual.output import Output, Stream


def test_a_stream_keeps_its_first_and_its_last_half() -> None:
    stream = Stream(limit=10)
    for piece in ("abc", "defgh", "ijklm", "nop"):
        stream.add(piece)
    assert stream.text() == "abcde\n[… 6 bytes are left out here …]\nlmnop"
    assert stream.cut == 6


@pytest.mark.parametrize("text", ["", "a", "abcdefghij", "ab\ncd"])
def test_what_fits_is_as_it_was(text: str) -> None:
    stream = Stream(limit=10)
    for letter in text:
        stream.add(letter)
    assert stream.text() == text
    assert stream.cut == 0


def test_a_stream_is_cut_between_characters() -> None:
    stream = Stream(limit=6)
    stream.add("äöü" * 10)
    assert stream.text() == "ä\n[… 54 bytes are left out here …]\nü"


def test_a_note_stands_on_a_line_of_its_own() -> None:
    shown: list[str] = []
    output = Output(shown.append)
    output.add("out", "no end of line")
    output.note("first")
    output.note("second")
    assert output.err.text() == "no end of line\nfirst\nsecond\n"
    assert shown == ["outno end of line"]


@pytest.mark.parametrize(
    ("text", "said", "told"),
    [
        ("echo {1..10000}", "", []),
        ("seq 10", "seq: missing operand\n", []),
        ("seq 9999999", "seq: line limit (100000) exceeded; output truncated\n", [CUT]),
        (
            "sed …",
            "sed: warning: branch/label loop limit (1000) reached; output may be truncated\n",
            [CUT],
        ),
        ("head -c 5M /dev/zero", "", [ENDLESS]),
        ("head -c 16 /dev/urandom", "", []),
        ("tr -dc a-z </dev/urandom | head -c 999", "", []),
        ("tr -dc a-z </dev/urandom | head -c 5000", "", [RANDOM]),
        ("head -c 10k /dev/random; cat /dev/zero", "", [RANDOM]),
        ("dd if=/dev/urandom bs=1M count=2; dd if=/dev/zero bs=1M", "", [ENDLESS, RANDOM]),
    ],
)
def test_what_is_not_whole_is_told_and_is_no_success(text: str, said: str, told: list[str]) -> None:
    assert notes(text, said, lost=False) == (told, CUT in told)


def test_output_that_the_shell_does_not_pass_on_is_told() -> None:
    assert notes("yes", "", lost=True) == ([LOST], False)


@pytest.mark.parametrize(
    "text", ["echo {1..10001}", "for i in {0..20000..1}; do :; done", "echo {-9000..9000}"]
)
def test_a_range_that_is_left_as_it_stands_is_told_and_is_no_success(text: str) -> None:
    told, fails = notes(text, "", lost=False)
    assert "range in braces" in told[0]
    assert fails


def test_a_description_is_json_that_says_all() -> None:
    described = virtual({"a/b.txt": "text", "c": b"\xff"}, memory_bytes=300_000_000)
    assert (described.kind, described.placement, described.cwd, described.isolated) == (
        "virtual",
        "any",
        "/workspace",
        True,
    )
    assert described.reference() == {
        "kind": "virtual",
        "checkpoint": "call",
        "memory_bytes": 300_000_000,
        "files": {"a/b.txt": base64.b64encode(b"text").decode(), "c": "/w=="},
    }
    assert virtual(durable=False).reference()["checkpoint"] == "off"


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../out", "a/../b", "a//b", "./a", "a/"])
def test_initial_files_lie_within(path: str) -> None:
    with pytest.raises(BadInput, match="no path of a file"):
        virtual({path: "x"})


def test_initial_files_are_files_and_few() -> None:
    with pytest.raises(BadInput, match="in what is itself a file"):
        virtual({"a": "x", "a/b": "y"})
    with pytest.raises(BadInput, match="recorded with a session"):
        virtual({"a": b"x" * (FILES_BYTES + 1)})
    with pytest.raises(BadInput, match="too little"):
        virtual(memory_bytes=1_000_000)
