"""The page's waterfall: it folds events as the server does."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser

from outlast.fold import records_of
from outlast.records import Payload
from outlast.records.events import Event, face
from outlast.timeline import Timeline
from outlast.unfolding import unfold
from tests.acceptance.browser import modules_in, opened_browser
from tests.histories.stored import HERE, History
from tests.histories.stored import records_of as records_of_history
from tests.property.strategies import logs
from tests.unit.test_timeline import Story

Unfolded: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], list[Timeline]]
UNFOLD: Final = """async (text) => {
  const { told, Unfolding } = await import("/waterfall/unfold.js");
  const found = JSON.parse(text).map(({ before, events }) => {
    const unfolding = new Unfolding(before ?? {});
    for (const event of events) unfolding.apply(event);
    return told(unfolding);
  });
  return JSON.stringify(found);
}"""
HISTORIES = sorted(
    path for path in HERE.glob("v*/*.json") if path.suffixes == [".json"] and path.stem != "schema"
)

ABOUTS: list[object] = [
    {"command": "ls \u00a0 -l\n"},
    {"command": 1, "path": "p"},
    {"url": ""},
    [],
    None,
    "text",
]
PROMPTS: list[object] = [
    "a  b\n\tc",
    [{"text": "x"}, {"type": "image"}],
    [{"text": None}],
    {"text": "y"},
    "😀" * 200,
    "\u00a0a",
]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def unfolded(browser: Browser) -> Generator[Unfolded]:
    """What the page makes of lists of events."""
    page = modules_in(browser)

    def unfolded(cases: Sequence[Mapping[str, Any]]) -> list[Timeline]:
        text = page.evaluate(UNFOLD, msgspec.json.encode(cases).decode())
        return msgspec.json.decode(text, type=list[Timeline])

    yield unfolded
    page.close()


def _told(timeline: Timeline) -> dict[str, Any]:
    """As the operation tells it: the newest turn whole, and the sum of all."""
    return {
        "cursor": timeline.cursor,
        "at_s": timeline.at_s,
        "behind_s": timeline.behind_s,
        "attempt": timeline.attempt,
        "turn": timeline.turns[-1] if timeline.turns else None,
        "saved": timeline.saved,
    }


def _events(commits: list[tuple[Any, list[Any]]]) -> list[Event]:
    return [
        face(record, f"{header.seq}.{at}", header.fence)
        for header, records in commits
        for at, record in enumerate(records)
    ]


def test_the_page_draws_stored_histories_as_the_server_does(unfolded: Unfolded) -> None:
    histories = [msgspec.json.decode(path.read_bytes(), type=History) for path in HISTORIES]
    events = [_events(records_of_history(history)) for history in histories]
    assert unfolded([{"events": one} for one in events]) == [unfold(one) for one in events]


@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(logs(), min_size=30, max_size=30), st.randoms(use_true_random=False))
def test_the_page_goes_on_from_any_picture_that_the_server_gives_it(
    unfolded: Unfolded, found: list[Any], random: Any
) -> None:
    cases: list[dict[str, Any]] = []
    whole: list[Timeline] = []
    for log in found:
        events = _events([(one.header, records_of("s", one)) for one in log])
        cut = random.randint(0, len(events))
        before = unfold(events[:cut])
        cases.append({"before": _told(before), "events": events[cut:]})
        timeline = unfold(events)
        whole.append(msgspec.structs.replace(timeline, turns=timeline.turns[max(0, len(before.turns) - 1) :]))
    assert unfolded(cases) == whole


def test_the_page_tells_what_a_call_and_a_prompt_are_about_as_the_server_does(unfolded: Unfolded) -> None:
    story = Story()
    story.attempt(0)
    for prompt in PROMPTS:
        story.begin(1)
        story.events[-1] = msgspec.structs.replace(story.events[-1], payload=_payload(prompt))
        for arguments in ABOUTS:
            story.open(2, "tool", "Bash", arguments=_payload(arguments))
        story.add("turn.settled", 3, status="done")
    assert unfolded([{"events": story.events}]) == [unfold(story.events)]


def _payload(value: object) -> Payload:
    return Payload(msgspec.Raw(msgspec.json.encode(value)))
