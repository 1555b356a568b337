"""The waterfall in a terminal: it fits, it shows where a turn stopped and went on, and days of waiting take no room."""

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.cli.axis import axis_of
from outlast.cli.drawing import Drawing
from outlast.cli.printer import Printer, Terminal
from outlast.cli.saved import log_text, saved_text, sentence, span
from outlast.cli.waterfall import LANES, Line, waterfall
from outlast.clock import ManualClock
from outlast.records import Usage
from outlast.timeline import LogCost, Saved, TurnBar
from outlast.unfolding import unfold
from tests.unit.test_cli_printer import Screen
from tests.unit.test_timeline import SPENT, Story

DAY_S = 86_400.0


def _plain(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def _drawn(story: Story, width: int = 60) -> list[str]:
    timeline = story.timeline()
    return _plain(waterfall(timeline.turns[-1], timeline.at_s, width))


@pytest.fixture
def story() -> Story:
    """A worker is lost in the midst of a tool call; another waits two days for a signal, and ends."""
    story = Story()
    story.attempt(0, "a")
    story.begin(0)
    story.settle(story.open(0), 10, 10.0, usage=SPENT)
    story.start(story.open(10, "tool", "Bash", granted=True), 10)
    story.add("call.verdict", 20, call=99)  # a sign of life
    story.attempt(320, "b")
    story.start(2, 320)
    story.settle(2, 330, 10.0, "error")
    wait = story.open(330, "wait", "signal")
    story.add("attempt.ended", 331, status="waiting")
    story.attempt(331 + 2 * DAY_S, "c")
    story.settle(wait, 331 + 2 * DAY_S, 0.0)
    story.settle(story.open(332 + 2 * DAY_S), 342 + 2 * DAY_S, 10.0, usage=SPENT)
    story.add("turn.settled", 342 + 2 * DAY_S, status="done")
    return story


def test_one_sees_where_it_stopped_and_where_another_went_on(story: Story) -> None:
    attempt, main, times, *words = _drawn(story)
    assert attempt == "  attempt   1 a             ✕    2 b       ‖    3 c"
    assert main == "  main      ▓▓▓▓▓▓▓▓▓╌╌╌╌╌╌╌╌┊   ▒▒▒▒▒▒▒▒▒▒✗┊────██████████"
    assert times.split()[1:] == ["5min", "2d"]
    said = " ".join(words)
    assert "▓ model, from the log since" in said
    assert "✕ worker lost" in said
    assert "Other attempts went on with it 2 times: the log saved 2 model calls" in " ".join(said.split())


@given(st.integers(33, 300))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    story = Story()
    story.attempt(0, "a worker with a long name that tells where it is")
    story.begin(0)
    at_s = 0.0
    for number in range(60):
        story.settle(story.open(at_s, lane=f"lane{number % 20}"), at_s + 1, 1.0, usage=SPENT)
        at_s += 1 if number % 7 else 4000
        if number % 5 == 4:
            story.attempt(at_s, f"worker-{number}")
    assert max(map(len, _drawn(story, width))) <= width


def test_of_many_lanes_the_first_are_drawn() -> None:
    story = Story()
    story.attempt(0)
    story.begin(0)
    for number in range(LANES + 3):
        story.settle(story.open(number, lane=f"l{number}"), number + 1, 1.0)
    lines = _drawn(story)
    assert len([line for line in lines if line.startswith("  l")]) == LANES
    assert "  … 3 more lanes" in lines


def test_errors_that_are_too_close_to_be_drawn_are_counted() -> None:
    story = Story()
    story.attempt(0)
    story.begin(0)
    for number in range(1000):
        story.settle(story.open(number, "tool", "t"), number + 1, 1.0, "error" if number % 10 == 0 else "ok")
    lines = _drawn(story)
    assert "✗" not in lines[1]
    assert any("✗ 100 calls ended as an error, too close to draw" in line for line in lines)


def test_a_turn_without_calls_has_no_drawing() -> None:
    story = Story()
    story.attempt(0)
    story.begin(0)
    assert _drawn(story) == []


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e4)), max_size=30), st.integers(20, 200))
def test_an_axis_never_goes_back_and_stays_in_its_columns(
    spans: list[tuple[float, float]], columns: int
) -> None:
    busy = [(began, began + long) for began, long in spans]
    axis = axis_of(busy, 0.0, 2e6, columns)
    assert sum(part.columns for part in axis.parts) <= columns
    assert all(one.ended_s == other.began_s for one, other in itertools.pairwise(axis.parts))
    moments = sorted([0.0, 2e6, *itertools.chain.from_iterable(busy)])
    found = [axis.column(at_s) for at_s in moments]
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] < columns


def test_work_keeps_its_room_beside_days_of_waiting() -> None:
    axis = axis_of([(0.0, 60.0), (30 * DAY_S, 30 * DAY_S + 60.0)], 0.0, 30 * DAY_S + 60.0, 60)
    assert [(part.columns, part.cut) for part in axis.parts] == [(27, False), (5, True), (28, False)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (4.21, "4.2 s"), (80, "80 s"), (200, "3 min"), (9400, "2.6 h"), (2 * DAY_S, "2 d")],
)
def test_a_length_of_time_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_what_was_saved_is_told_in_words() -> None:
    saved = Saved(1, 1, 2, {"m": Usage(1000, 200, cost_usd=0.5)}, 3.0, 4.0, 7.0)
    assert saved_text(saved) == "1 model call (1,200 tokens, $0.5000), 2 tool calls and 7.0 s of work"
    assert saved_text(Saved(1)) == ""
    assert log_text(LogCost(1, 2, 3456)) == "1 commit, 2 records, 3,456 bytes"
    assert sentence(TurnBar(1, saved=saved)).startswith(
        "Other attempts went on with it once: the log saved 1 "
    )
    assert "nothing to save" in sentence(TurnBar(1, saved=Saved(2)))
    assert "One attempt was enough" in sentence(TurnBar(1, status="done", finished=saved))
    assert "If its worker is lost now, the log saves 1 model" in sentence(TurnBar(1, finished=saved))
    assert "Nothing of it is finished" in sentence(TurnBar(1))


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def _watched(story: Story, drawing: Drawing, *, tty: bool) -> tuple[Printer, io.StringIO]:
    file = _Tty() if tty else io.StringIO()
    console = Terminal(file=file, force_terminal=tty, highlight=False, soft_wrap=True, width=80, height=40)
    printer = Printer(console, clock=ManualClock(), drawing=drawing)
    with printer:
        for event in story.events:
            printer.apply(event)
        printer.tick()
    return printer, file


def test_a_terminal_keeps_the_waterfall_of_a_turn_that_is_over(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    _, file = _watched(story, Drawing(ManualClock()), tty=True)
    screen = Screen()
    screen.feed(file.getvalue().replace("\n", "\r\n"))
    assert screen.text.count("  attempt   1 a") == 1


def test_a_terminal_shows_the_waterfall_of_a_turn_that_runs_once(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    file, clock, screen = _Tty(), ManualClock(), Screen()
    console = Terminal(file=file, force_terminal=True, highlight=False, soft_wrap=True, width=80, height=40)
    with Printer(console, clock=clock, drawing=Drawing(clock)) as printer:
        for event in story.events[:8]:
            printer.apply(event)
            clock.turn(1)
            printer.tick()
        screen.feed(file.getvalue().replace("\n", "\r\n"))
        lines = screen.text.splitlines()
        assert sum(line.startswith("  attempt ") for line in lines) == 1
        assert any("the log saved 1 model call" in line for line in lines)


def test_a_file_gets_the_waterfall_where_that_was_asked_for(story: Story) -> None:
    assert "  attempt   1 a" not in _watched(story, Drawing(ManualClock()), tty=False)[1].getvalue()
    text = _watched(story, Drawing(ManualClock(), lines=True), tty=False)[1].getvalue()
    assert text.count("  attempt   1 a") == 1
    assert "\x1b" not in text


def test_watching_from_the_midst_draws_what_came_before_once(story: Story) -> None:
    before = unfold(story.events[:6])
    drawing = Drawing(ManualClock(), before)
    for event in story.events[3:]:
        drawing.apply(event)
    whole = Drawing(ManualClock())
    for event in story.events:
        whole.apply(event)
    assert [one.plain for one in drawing.anew(80)] == [one.plain for one in whole.anew(80)]


def test_what_is_open_grows_with_time_and_is_drawn_again_no_sooner_than_it_must() -> None:
    clock, story = ManualClock(), Story()
    story.attempt(0)
    story.begin(0)
    story.settle(story.open(0), 10, 10.0)
    story.open(10, "tool", "t")
    drawing = Drawing(clock)
    for event in story.events:
        drawing.apply(event)
    first = drawing.now(80)
    clock.turn(0.1)
    assert drawing.now(80) is first
    clock.turn(30)
    later = drawing.now(80)
    assert later[1].plain.count("▄") > 40
    assert later[1].plain.rstrip().endswith("▸")
