import io
from collections.abc import Sequence

import msgspec
import pytest

from outlast.cli.printer import Printer, Terminal
from outlast.clock import ManualClock
from outlast.records import Payload, Usage
from outlast.records.events import Event
from tests.acceptance.terminals import Screen


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def _payload(value: object) -> Payload:
    return Payload(msgspec.Raw(msgspec.json.encode(value)))


def _said(call: int, text: str, offset: int = 0) -> Event:
    return Event("2.0", "call.text", 1, 1, "main", call, text=text, offset=offset)


OPENED = Event("2.0", "turn.opened", 1, 1, payload=_payload("Add a page"), at_s=1_800_000_000.0)
MODEL = Event("2.1", "call.opened", 1, 1, "main", 1, facts={"kind": "model"}, at_s=1_800_000_000.0)
ANSWERED = Event(
    "3.0",
    "call.settled",
    1,
    1,
    "main",
    1,
    status="ok",
    payload=_payload({"text": "hello there"}),
    usage=Usage(10, 2, cost_usd=0.5),
    facts={"duration_s": 1.94},
)
TOOL = Event(
    "4.0",
    "call.opened",
    1,
    1,
    "main",
    2,
    "Bash",
    payload=_payload({"command": "pytest -q"}),
    facts={"kind": "tool"},
)
TOOL_FAILED = Event(
    "5.0",
    "call.settled",
    1,
    1,
    "main",
    2,
    status="error",
    payload=_payload("exit 1"),
    facts={"duration_s": 12.0},
)
TAKEN_OVER = Event("6.0", "attempt.opened", attempt=2, facts={"worker": "worker-b"})
DONE = Event("9.0", "turn.settled", 1, 2, status="done", usage=Usage(10, 2, cost_usd=0.5))

STORY = """\
turn 1  Add a page
  ● model      1.9 s   10 → 2 tokens   $0.5000
    hello there
  ✗ Bash      12.0 s   pytest -q   error   exit 1
  ▸ attempt 2 by worker-b
turn 1 done · 10 → 2 tokens   $0.5000
"""


def _printed(events: Sequence[Event], file: io.StringIO | None = None) -> str:
    file = file or io.StringIO()
    with Printer(Terminal(file=file, highlight=False, soft_wrap=True), clock=ManualClock()) as printer:
        for event in events:
            printer.apply(event)
    return file.getvalue()


def test_without_a_terminal_only_what_is_settled_is_printed() -> None:
    events = [OPENED, MODEL, _said(1, "hello "), ANSWERED, TOOL, TOOL_FAILED, TAKEN_OVER, DONE]
    assert _printed(events) == STORY


def test_colour_that_is_forced_into_a_file_brings_no_moving_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = _printed([OPENED, MODEL, _said(1, "hello"), ANSWERED])
    assert "\x1b[" in text
    assert "\x1b[?25l" not in text
    assert "\x1b[2K" not in text


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    text = _printed([OPENED, MODEL, ANSWERED, TOOL, TOOL_FAILED], _Tty())
    assert "\x1b[3" not in text.replace("\x1b[3m", "")


class _Watching:
    """A printer at a terminal, and what stands on it."""

    def __init__(self) -> None:
        self.file = _Tty()
        self.clock = ManualClock()
        console = Terminal(
            file=self.file, force_terminal=True, highlight=False, soft_wrap=True, width=80, height=30
        )
        self.printer = Printer(console, clock=self.clock)

    def show(self, *events: Event) -> str:
        for event in events:
            self.printer.apply(event)
        self.clock.turn(1)
        self.printer.tick()
        return self.screen()

    def screen(self) -> str:
        screen = Screen()
        screen.feed(self.file.getvalue().replace("\n", "\r\n"))
        return screen.text


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> _Watching:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return _Watching()


def test_a_terminal_shows_live_text_until_the_call_is_settled(watching: _Watching) -> None:
    with watching.printer:
        assert (
            "    hello" in watching.show(OPENED, MODEL, _said(1, "hello "), _said(1, "th", 6)).splitlines()[2]
        )
        assert watching.show(ANSWERED).count("hello") == 1
    assert watching.screen().splitlines() == STORY.splitlines()[:3]


def test_text_that_is_retracted_leaves_the_screen(watching: _Watching) -> None:
    with watching.printer:
        watching.show(OPENED, MODEL, _said(1, "a first try"))
        retracted = Event("3.0", "call.retracted", 1, 2, "main", 1, text="asked again")
        text = watching.show(retracted, _said(1, "hello"))
        assert "a first try" not in text
        assert text.count("hello") == 1


def test_text_of_a_dead_attempt_leaves_the_screen(watching: _Watching) -> None:
    with watching.printer:
        watching.show(OPENED, MODEL, _said(1, "a first try"))
        text = watching.show(TAKEN_OVER)
        assert "a first try" not in text
        assert "▸ attempt 2 by worker-b" in text


def test_a_long_line_of_wide_signs_leaves_no_rest_behind(watching: _Watching) -> None:
    with watching.printer:
        watching.show(OPENED, MODEL, _said(1, "漢字" * 200))
        watching.show(ANSWERED)
    assert watching.screen().splitlines() == STORY.splitlines()[:3]


def test_while_a_question_stands_nothing_is_drawn_and_nothing_is_lost(watching: _Watching) -> None:
    with watching.printer:
        watching.show(OPENED, MODEL, _said(1, "hello"))
        with watching.printer.aside():
            before = watching.file.getvalue()
            watching.show(ANSWERED, TOOL)
            assert watching.file.getvalue() == before
        assert watching.screen().count("hello there") == 1
        assert "◌ Bash" in watching.screen()


def test_a_call_whose_beginning_was_not_seen_is_told_by_its_number() -> None:
    assert _printed([TOOL_FAILED]) == "  ✗ call 2    12.0 s   error   exit 1\n"
    assert "hello there" in _printed([ANSWERED])


def test_a_claim_of_a_session_without_an_open_turn_is_no_second_attempt() -> None:
    assert "attempt" not in _printed([TAKEN_OVER, OPENED, MODEL, ANSWERED, DONE, TAKEN_OVER])


def test_what_a_tool_says_cannot_draw_on_the_terminal() -> None:
    nasty = msgspec.structs.replace(ANSWERED, payload=_payload({"text": "\x1b[2J\x1b]0;title\x07\rgone"}))
    text = _printed([OPENED, MODEL, nasty])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "␛[2J" in text


def _wait(call: int, name: str, about: object, **facts: object) -> Event:
    return Event(
        "4.0",
        "call.opened",
        1,
        1,
        "main",
        call,
        name,
        payload=_payload(about),
        facts={"kind": "wait", **facts},
    )


def test_what_a_turn_waits_for_is_told_when_it_begins_with_what_to_type() -> None:
    asked = _wait(3, "person", {"question": "Shall I?", "choices": ["yes", "not yet"]})
    rested = Event("5.0", "attempt.ended", 1, 1, status="waiting")
    answered = Event("6.0", "call.decided", 1, 1, call=3, status="done", text="ann")
    settled = Event("6.1", "call.settled", 1, 1, "main", 3, status="ok", payload=_payload("not yet"))
    text = _printed([OPENED, _wait(2, "signal", {"signal": "ci"}), asked, rested, answered, settled])
    assert (
        text
        == """\
turn 1  Add a page
  … waits for the signal ci
      outlast signal SESSION ci --value JSON
  … call 3 asks: Shall I? (yes · not yet)
      outlast decide SESSION 3 --answer yes
      outlast decide SESSION 3 --answer 'not yet'
  ▪ waits    no worker holds it meanwhile
  » person   decided: done by ann
  ● person     0.0 s   not yet
"""
    )


def test_a_call_in_doubt_is_told_with_the_ways_to_decide_it() -> None:
    parked = Event("6.0", "turn.parked", 1, 2, status="decision", facts={"in_doubt": [2]})
    assert _printed([OPENED, TOOL, parked]).splitlines()[1:] == [
        "turn 1 waits for a decision",
        "  ? Bash     pytest -q   is in doubt: it may have run",
        "      outlast decide SESSION 2 --done RESULT",
        "      outlast decide SESSION 2 --run-again",
        "      outlast decide SESSION 2 --failed WHY",
    ]


def test_what_a_loop_drew_from_chance_is_nothing_that_happened() -> None:
    drawn = Event("4.0", "call.opened", 1, 1, "main", 2, "random", facts={"kind": "value"})
    settled = Event("5.0", "call.settled", 1, 1, "main", 2, status="ok", payload=_payload(0.5))
    assert _printed([OPENED, drawn, settled]) == "turn 1  Add a page\n"


def test_a_question_cannot_draw_on_the_terminal() -> None:
    text = _printed([OPENED, _wait(2, "person", {"question": "\x1b[2J?", "choices": ["\x1b]0;x\x07"]})])
    assert "\x1b" not in text


def test_a_wait_that_ends_by_itself_says_when() -> None:
    text = _printed([OPENED, _wait(2, "sleep", {"for_s": 60.0}, until_s=1_800_000_060.0)])
    assert text.splitlines()[1].startswith("  … sleeps, until 2027-01-1")
