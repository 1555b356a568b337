"""What a turn shows as moves, and as the AI SDK's and AG-UI's streams: the same for whoever reads the same events."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from outlast.records import Payload
from outlast.records.events import Event
from outlast.server.streams.ag_ui import AgUiStream, Rest, Retract
from outlast.server.streams.ai_sdk import UiStream
from outlast.server.streams.moves import Piece, Void
from outlast.server.streams.patches import patch
from outlast.server.streams.saying import Ask, Saying, read_saying
from outlast.server.streams.turning import TurnMoves


def payload(value: object) -> Payload:
    return Payload(msgspec.Raw(msgspec.json.encode(value)))


def model(call: int, lane: str = "main") -> Event:
    return Event("1.0", "call.opened", 1, 1, lane, call, "m", facts={"kind": "model"})


def text(call: int, offset: int, said: str) -> Event:
    return Event("1.0", "call.text", 1, 1, "main", call, text=said, offset=offset)


def said(call: int, words: str) -> Event:
    return Event("1.0", "call.settled", 1, 1, "main", call, status="ok", payload=payload({"text": words}))


OPENED = Event("1.0", "turn.opened", 1, 1, name="p", payload=payload("go"))
TOOK_OVER = Event("1.0", "attempt.opened", attempt=2, facts={"worker": "heir"})
TOOL = Event(
    "1.0", "call.opened", 1, 1, "main", 2, "publish", payload=payload({"to": 1}), facts={"kind": "tool"}
)
PARKED = Event("1.0", "turn.parked", 1, 1, status="decision", facts={"asks": [2], "why": {"2": "rule"}})
DECIDED = Event("1.0", "call.decided", 1, 1, call=2, status="allow", text="eve")
DONE = Event("1.0", "call.settled", 1, 1, "main", 2, status="ok", payload=payload("out"))
SETTLED = Event("1.0", "turn.settled", 1, 1, status="done", payload=payload("hello world"))
KILLED = [
    OPENED,
    model(1),
    text(1, 0, "hel"),
    text(1, 3, "lo wo"),
    TOOK_OVER,
    text(1, 0, "hello"),
    said(1, "hello world"),
]
ASKED = [*KILLED, TOOL, PARKED, DECIDED, DONE, SETTLED]


def moves(events: Sequence[Event]) -> list[object]:
    fold = TurnMoves("p")
    return [move for event in events for move in fold.take(event)]


def ui(events: Sequence[Event]) -> UiStream:
    stream, fold = UiStream("s"), TurnMoves("p")
    for event in events:
        for move in fold.take(event):
            stream.take(move)
    return stream


def kinds(stream: UiStream) -> list[str]:
    return [str(msgspec.json.decode(chunk)["type"]) for chunk in stream.chunks]


def test_a_prefix_of_the_events_gives_a_prefix_of_the_chunks() -> None:
    whole = ui(ASKED).chunks
    for end in range(len(ASKED) + 1):
        part = ui(ASKED[:end]).chunks
        assert whole[: len(part)] == part


def test_what_a_killed_attempt_had_shown_is_void_and_the_rest_of_the_answer_follows() -> None:
    shown = [move for move in moves(KILLED) if isinstance(move, Piece | Void)]
    assert [move.text if isinstance(move, Piece) else None for move in shown] == [
        "hel",
        "lo wo",
        None,
        "hello",
        " world",
    ]
    assert kinds(ui(KILLED)) == [
        "start",
        "start-step",
        *("text-start", "text-delta", "text-delta"),
        *("reset-step", "data-attempt"),
        *("text-start", "text-delta", "text-delta", "text-end"),
    ]


def test_an_answer_that_goes_another_way_takes_the_place_of_what_was_shown() -> None:
    shown = moves([OPENED, model(1), text(1, 0, "abc"), said(1, "axy")])
    assert [type(move).__name__ for move in shown[2:]] == ["Piece", "Void", "Piece", "Said"]


def test_lost_pieces_stand_as_one_sign_until_the_answer_is_there() -> None:
    gap = Event("1.0", "gap", facts={"deltas": 3})
    stream = ui([OPENED, model(1), gap, text(1, 4, "o"), said(1, "hello")])
    deltas = [msgspec.json.decode(chunk).get("delta") for chunk in stream.chunks]
    assert [delta for delta in deltas if delta] == ["…", "o", "hello"]
    assert kinds(stream).count("reset-step") == 1
    assert stream.exact == 2, "indices behind the gap are this process's own"


def test_what_stands_in_a_step_that_is_reset_is_sent_again_unless_its_model_call_said_it() -> None:
    edited = Event(
        "1.0", "document.edited", attempt=1, name="plan", payload=payload([1]), facts={"version": 1}
    )
    stream = ui([OPENED, model(1), text(1, 0, "a"), edited, TOOK_OVER])
    assert kinds(stream)[-3:] == ["reset-step", "data-document", "data-attempt"]


def test_a_pause_ends_the_stream_and_stands_as_nothing_once_it_is_over() -> None:
    paused = ui([*KILLED, TOOL, PARKED])
    last = len(paused.chunks) - 1
    assert paused.resting
    assert msgspec.json.decode(paused.chunk(last)) == {"type": "finish", "finishReason": "tool-calls"}
    later = ui(ASKED)
    assert msgspec.json.decode(later.chunk(last))["type"] == "message-metadata"
    assert later.chunks[: last + 1] == paused.chunks
    assert kinds(later)[last + 1 :] == [
        "message-metadata",
        "start-step",
        "tool-approval-response",
        "tool-output-available",
        "finish-step",
        "message-metadata",
        "finish",
    ]


def test_a_prompt_that_is_refused_is_a_turn_that_failed() -> None:
    stream = ui([Event("1.0", "input.refused", attempt=1, name="p", text="1,000 prompts wait already")])
    assert kinds(stream) == ["message-metadata", "error", "finish"]
    assert stream.over


def test_ag_ui_takes_back_what_is_void_and_names_what_it_was_interrupted_for() -> None:
    stream, fold = AgUiStream("s", {}), TurnMoves("p")
    for event in [*KILLED, TOOL, PARKED]:
        for move in fold.take(event):
            stream.take(move)
    assert [chunk.messages for chunk in stream.chunks if isinstance(chunk, Retract)] == [[]]
    rest = stream.chunks[-1]
    assert isinstance(rest, Rest)
    assert rest.interrupts[0] == {
        "id": "2-1-1",
        "reason": "tool_approval",
        "message": "publish wants to be allowed. rule",
        "toolCallId": "call-2",
    }


@pytest.mark.parametrize(
    "answer",
    [
        {
            "message": {
                "role": "assistant",
                "parts": [
                    {"kind": "thinking", "text": "hm"},
                    {"kind": "text", "text": "yes"},
                    {"kind": "tool_call", "id": "t", "name": "look", "arguments": {"at": 1}},
                ],
            },
            "stop": "tools",
        },
        {
            "type": "message",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "y"},
                {"type": "text", "text": "es"},
                {"type": "tool_use", "id": "t", "name": "look", "input": {"at": 1}},
            ],
        },
        {
            "output": [
                {"type": "reasoning", "summary": [{"text": "hm"}]},
                {"type": "message", "content": [{"type": "output_text", "text": "yes"}]},
                {"type": "function_call", "call_id": "t", "name": "look", "arguments": '{"at":1}'},
            ]
        },
        {
            "choices": [
                {
                    "message": {
                        "reasoning": "hm",
                        "content": "yes",
                        "tool_calls": [
                            {
                                "id": "t",
                                "type": "function",
                                "function": {"name": "look", "arguments": '{"at":1}'},
                            }
                        ],
                    }
                }
            ]
        },
        {
            "kind": "response",
            "parts": [
                {"part_kind": "thinking", "content": "hm"},
                {"part_kind": "text", "content": "yes"},
                {"part_kind": "tool-call", "tool_call_id": "t", "tool_name": "look", "args": '{"at":1}'},
            ],
        },
        {
            "type": "ai",
            "data": {
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "yes"},
                    {"type": "tool_use", "id": "t"},
                ],
                "tool_calls": [{"id": "t", "name": "look", "args": {"at": 1}}],
            },
        },
    ],
    ids=["outlast", "messages", "responses", "completions", "pydantic-ai", "langchain"],
)
def test_an_answer_says_the_same_in_every_dialect(answer: Any) -> None:
    assert read_saying(answer) == Saying(
        (("thinking", "hm"), ("text", "yes")), (Ask("t", "look", {"at": 1}),)
    )


NONE: list[Any] = [None, 3, [], {}, {"content": "text"}, {"output": [3]}, {"choices": [{}]}]


@pytest.mark.parametrize("answer", NONE)
def test_what_is_no_answer_says_nothing(answer: object) -> None:
    assert read_saying(answer) == Saying()


def test_a_patch_says_what_has_changed_and_nothing_else() -> None:
    before: dict[str, Any] = {"a/b": 1, "gone": 1, "same": {"x": True}}
    now: dict[str, Any] = {"a/b": 2, "same": {"x": 1}, "new": []}
    assert patch(before, now, "/doc") == [
        {"op": "remove", "path": "/doc/gone"},
        {"op": "replace", "path": "/doc/a~1b", "value": 2},
        {"op": "replace", "path": "/doc/same/x", "value": 1},
        {"op": "add", "path": "/doc/new", "value": []},
    ]
