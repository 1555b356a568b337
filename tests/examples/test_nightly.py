"""The nightly agent: one turn a night, and whoever is needed is told."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from examples.nightly import tracker, triage, triage_of
from outlast.clock import ManualClock
from outlast.notify import Notice
from outlast.session import Session
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk
from tests.unit.listed_model import Listed, says

DAY_S = 86_400.0
BERLIN = ZoneInfo("Europe/Berlin")


class Ear:
    """Is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, str, str]] = []

    async def tell(self, notice: Notice) -> str:
        self.heard.append((notice.turn, notice.event, notice.status))
        return ""


@pytest.fixture(autouse=True)
def issues() -> Iterator[list[str]]:
    tracker.titles.clear()
    tracker.labels.clear()
    yield tracker.titles
    tracker.titles.clear()


async def test_each_night_is_a_turn_and_a_person_is_told_when_one_is_needed(issues: list[str]) -> None:
    clock, ear = ManualClock(datetime(2027, 1, 14, 12, tzinfo=BERLIN).timestamp()), Ear()
    agent = triage_of(Listed(says("bug"), says("unsure")))
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, "triage", agent=agent, clock=clock)
        await session.schedule(
            "Look through the issues", cron="30 2 * * 1-5", zone="Europe/Berlin", id="nightly"
        )
        desk = Desk(world, clock, notifier=ear)
        await desk.work(agent)
        issues.append("It crashes")
        clock.turn(DAY_S)  # Friday, half past two in the morning, has passed
        await desk.work(agent)
        assert (await session.result(1)).value == {"It crashes": "bug"}
        [nightly] = await session.schedules()
        assert datetime.fromtimestamp(nightly.due_s, BERLIN) == datetime(2027, 1, 18, 2, 30, tzinfo=BERLIN)
        issues.append("Could it be blue?")
        clock.turn(nightly.due_s - clock.now())
        await desk.work(agent)
        assert (await session.head()).worker is None
        assert ear.heard == [(1, "settled", "done"), (2, "waiting", "person")]
        state = await session.state()
        assert state.turn is not None
        [question] = state.turn.open_calls()
        await session.decide(question.intent.call, "done", "wish")
        await desk.work(agent)
        assert tracker.labels == {"It crashes": "bug", "Could it be blue?": "wish"}
        assert ear.heard[-1] == (2, "settled", "done")


def test_the_agent_of_the_example_can_be_named() -> None:
    assert triage.name == "triage"
