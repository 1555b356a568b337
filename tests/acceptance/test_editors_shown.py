"""What an editor is shown of each event, and what becomes of what it sends; without a process."""

from typing import Any

import msgspec
import pytest
from acp import schema

from outlast.cli.acp.live import AGAIN
from outlast.cli.acp.prompts import prompt_text
from outlast.cli.acp.said import said_in
from outlast.cli.acp.shown import Shown, Update
from outlast.cli.acp.tools import changes_of, locations_of, plan_in, title_of, words_of
from outlast.clock import ManualClock
from outlast.errors import BadInput
from outlast.records import Payload
from outlast.records.events import Event


def event(kind: Any, value: object = None, **fields: Any) -> Event:
    return Event("1.0", kind, payload=Payload(msgspec.Raw(msgspec.json.encode(value))), **fields)


def drawn(shown: Shown, *events: Event) -> list[Update]:
    return [update for one in events for update in shown.take(one, one.payload.value())]


def texts(updates: list[Update]) -> list[tuple[str, str]]:
    return [
        (update.session_update, update.content.text)
        for update in updates
        if isinstance(update, schema.AgentMessageChunk | schema.UserMessageChunk | schema.AgentThoughtChunk)
        and isinstance(update.content, schema.TextContentBlock)
    ]


def asks(call: int, lane: str = "main") -> Event:
    return event("call.opened", call=call, name="m", lane=lane, facts={"kind": "model"})


def runs(call: int, name: str, arguments: object) -> Event:
    return event("call.opened", arguments, call=call, name=name, facts={"kind": "tool"})


@pytest.mark.parametrize(
    "answer",
    [
        {
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "text", "text": "Yes."},
                {"type": "tool_use"},
            ]
        },
        {
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]},
                {"type": "function_call", "name": "x"},
            ]
        },
        {
            "choices": [
                {"message": {"reasoning": "Hm.", "content": "Yes."}},
                {"message": {"content": "Other."}},
            ]
        },
        {"message": {"parts": [{"kind": "thinking", "text": "Hm."}, {"kind": "text", "text": "Yes."}]}},
    ],
    ids=["anthropic", "responses", "chat", "loop"],
)
def test_an_answer_says_the_same_in_every_dialect(answer: object) -> None:
    assert said_in(answer) == [("thinking", "Hm."), ("text", "Yes.")]


@pytest.mark.parametrize("odd", [None, "text", [], {"content": "no blocks"}, {"choices": [{"message": 3}]}])
def test_an_answer_of_another_shape_says_nothing(odd: object) -> None:
    assert said_in(odd) == []


def test_a_text_is_shown_when_its_call_is_settled_and_what_was_retracted_never() -> None:
    shown = Shown("/shop", set(), ManualClock())
    before = drawn(
        shown,
        event("turn.opened", "Hello?", turn=1, name="in-1"),
        asks(1),
        event("call.text", call=1, text="I beg"),
        event("call.retracted", call=1),
        event("attempt.opened"),
        event("call.text", call=1, text="I begin."),
    )
    assert texts(before) == [("user_message_chunk", "Hello?")]
    after = drawn(shown, event("call.settled", {"text": "I begin."}, call=1, status="ok"))
    assert texts(after) == [("agent_message_chunk", "I begin.")]
    over = event("turn.settled", "I begin.", turn=1, status="done")
    assert drawn(shown, over) == []


def heard(shown: Shown, *events: Event) -> str:
    return "".join(text for _, text in texts(drawn(shown, *events)))


def says_live(text: str, offset: int = 0) -> Event:
    return event("call.text", call=1, text=text, offset=offset)


def test_live_text_is_not_said_again_as_long_as_it_is_the_same() -> None:
    shown = Shown("/shop", set(), ManualClock(), live=True)
    first = heard(shown, asks(1), says_live("I be"), says_live("gin", 4))
    assert first == "I begin"
    again = heard(shown, event("call.retracted", call=1), event("attempt.opened"), says_live("I beg"))
    assert again == ""
    assert heard(shown, says_live("in here.", 5)) == " here."
    settled = event("call.settled", {"text": "I begin here. Now."}, call=1, status="ok")
    assert heard(shown, settled) == " Now."
    assert (
        heard(
            shown, asks(1), says_live("Next."), event("call.settled", {"text": "Next."}, call=1, status="ok")
        )
        == "Next."
    )


def test_live_text_that_is_given_otherwise_says_that_it_was_cut_off() -> None:
    shown = Shown("/shop", set(), ManualClock(), live=True)
    heard(shown, asks(1), says_live("I begin"), event("attempt.opened"))
    assert heard(shown, says_live("I st")) == f"{AGAIN}I st"
    assert (
        heard(shown, says_live("art.", 4), event("call.settled", {"text": "I start."}, call=1, status="ok"))
        == "art."
    )
    assert heard(shown, asks(2), event("call.settled", {"text": "Then."}, call=2, status="ok")) == "Then."


def test_live_text_whose_beginning_was_not_heard_waits_until_it_is_whole() -> None:
    shown = Shown("/shop", set(), ManualClock(), live=True)
    assert heard(shown, asks(1), says_live("in", 5)) == ""
    assert heard(shown, event("call.settled", {"text": "I begin"}, call=1, status="ok")) == "I begin"
    unlike = [
        {"type": "text", "text": "One."},
        {"type": "text", "text": " "},
        {"type": "text", "text": "Two."},
    ]
    told = heard(
        shown,
        asks(1),
        says_live("One. Two."),
        event("call.settled", {"content": unlike}, call=1, status="ok"),
    )
    assert told == "One. Two."


def test_a_result_that_nobody_said_is_said_and_a_failure_of_anothers_turn_too() -> None:
    shown = Shown("/shop", {"mine"}, ManualClock())
    drawn(shown, event("turn.opened", "x", turn=1, name="theirs"))
    assert texts(drawn(shown, event("turn.settled", "Done.", turn=1, status="done"))) == [
        ("agent_message_chunk", "Done.")
    ]
    failed = event("turn.settled", turn=1, status="failed", text="no key")
    assert texts(drawn(shown, failed)) == [("agent_message_chunk", "The turn failed: no key")]
    assert drawn(shown, event("turn.opened", "y", turn=2, name="mine")) == []
    assert drawn(shown, event("turn.settled", turn=2, status="failed", text="no key")) == []


def test_the_words_of_a_sub_agent_stay_in_its_call() -> None:
    shown = Shown("/shop", set(), ManualClock())
    drawn(shown, asks(1, lane="side:1"))
    assert drawn(shown, event("call.settled", {"text": "Inside."}, call=1, status="ok")) == []


def test_live_output_is_taken_back_with_its_attempt() -> None:
    clock = ManualClock()
    shown = Shown("/shop", set(), clock)
    (start,) = drawn(shown, runs(1, "Bash", {"command": "make test"}))
    assert isinstance(start, schema.ToolCallStart)
    assert (start.title, start.kind, start.status) == ("Bash make test", "execute", "pending")
    live = drawn(
        shown,
        event("call.output", call=1, text="one\n"),
        event("call.output", call=1, text="two\n", offset=4),
    )
    assert len(live) == 1, "what comes within the blink of an eye is drawn once"
    clock.turn(1)
    assert contents(drawn(shown, event("call.output", call=1, text="three\n", offset=8))) == [
        "```\none\ntwo\nthree\n```"
    ]
    assert contents(drawn(shown, event("attempt.opened"))) == []
    clock.turn(1)
    assert contents(drawn(shown, event("call.output", call=1, text="one\n"))) == ["```\none\n```"]
    ended = drawn(shown, event("call.settled", "one\ntwo\n", call=1, status="ok"))
    assert contents(ended) == ["```\none\ntwo\n```"]
    assert isinstance(ended[0], schema.ToolCallProgress)
    assert ended[0].status == "completed"


def contents(updates: list[Update]) -> list[str]:
    (update,) = updates
    assert isinstance(update, schema.ToolCallProgress)
    return [
        one.content.text
        for one in update.content or []
        if isinstance(one, schema.ContentToolCallContent) and isinstance(one.content, schema.TextContentBlock)
    ]


def test_an_edit_is_a_diff_at_its_place() -> None:
    arguments = {"file_path": "app/page.py", "old_string": "a", "new_string": "b"}
    (change,) = changes_of("Edit", arguments, "/shop")
    assert change.model_dump(exclude_unset=True) == {
        "type": "diff",
        "path": "/shop/app/page.py",
        "old_text": "a",
        "new_text": "b",
    }
    (written,) = changes_of("Write", {"file_path": "/else/x", "content": "all"}, "/shop")
    assert written.model_dump(exclude_unset=True) == {"type": "diff", "path": "/else/x", "new_text": "all"}
    assert changes_of("Bash", {"path": "x", "content": "y"}, "/shop") == []
    assert [one.path for one in locations_of({"path": "../x"}, "/shop")] == ["/shop/../x"]
    assert title_of("exec_command", {"cmd": ["ls", "-l"]}) == "exec_command ls -l"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, ""),
        ("plain", "plain"),
        ({"stdout": "out", "stderr": "", "interrupted": False}, "out"),
        ({"stdout": "out", "stderr": "err"}, "out\nerr"),
        ({"type": "text", "file": {"filePath": "a", "content": "one"}}, "one"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"output": "done", "metadata": {}}, "done"),
        ({"cents": 5}, '{"cents":5}'),
    ],
)
def test_a_result_is_words_for_people(value: object, words: str) -> None:
    assert words_of(value) == words


def test_an_edit_that_was_done_is_its_diff_and_one_that_failed_says_why() -> None:
    shown = Shown("/shop", set(), ManualClock())
    drawn(
        shown,
        runs(1, "Write", {"file_path": "a", "content": "x"}),
        runs(2, "Write", {"file_path": "a", "content": "x"}),
    )
    done, failed = drawn(
        shown,
        event("call.settled", {"type": "create"}, call=1, status="ok"),
        event("call.settled", "read it first", call=2, status="error"),
    )
    assert isinstance(done, schema.ToolCallProgress)
    assert [one.type for one in done.content or []] == ["diff"]
    assert isinstance(failed, schema.ToolCallProgress)
    assert [one.type for one in failed.content or []] == ["diff", "content"]


def test_a_list_of_what_is_to_be_done_is_a_plan() -> None:
    todos = {"todos": [{"content": "Look", "status": "completed"}, {"content": "Act", "status": "odd"}, 3]}
    entries = plan_in("TodoWrite", todos)
    assert entries is not None
    assert [(one.content, one.status) for one in entries] == [("Look", "completed")]
    assert plan_in("Read", todos) is None
    shown = Shown("/shop", set(), ManualClock())
    (plan,) = drawn(shown, event("document.edited", {"items": [{"text": "Act"}]}, name="todo"))
    assert isinstance(plan, schema.AgentPlanUpdate)
    assert [(one.content, one.status) for one in plan.entries] == [("Act", "pending")]


def test_a_prompt_carries_its_files_as_text() -> None:
    words = schema.TextContentBlock(type="text", text="See ")
    link = schema.ResourceContentBlock(type="resource_link", name="page.py", uri="file:///shop/page.py")
    assert prompt_text([words, link]) == "See [page.py](file:///shop/page.py)"
    file = schema.TextResourceContents(uri="file:///shop/a.md", text="```\nx\n```\n")
    whole = schema.EmbeddedResourceContentBlock(type="resource", resource=file)
    assert prompt_text([words, whole]) == "See \n\nfile:///shop/a.md:\n\n````\n```\nx\n```\n````"


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([], "is empty"),
        ([schema.TextContentBlock(type="text", text=" ")], "is empty"),
        ([schema.ImageContentBlock(type="image", data="", mime_type="image/png")], "no image"),
        (
            [
                schema.EmbeddedResourceContentBlock(
                    type="resource", resource=schema.BlobResourceContents(uri="x", blob="")
                )
            ],
            "no resource",
        ),
    ],
)
def test_what_a_prompt_cannot_carry_is_said(blocks: list[Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        prompt_text(blocks)
