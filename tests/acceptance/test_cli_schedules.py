"""`outlast schedule`: what it takes, lists and removes."""

from datetime import datetime
from pathlib import Path

import pytest

from tests.acceptance.test_cli_rulings import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.begin("sleeper", "0")
    return desk


def test_a_schedule_is_set_listed_and_removed(desk: Desk) -> None:
    words = ("--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--id", "nightly")
    said = desk.json("schedule", "s", "look around", *words)
    assert (said["session"], said["schedule"]) == ("s", "nightly")
    assert desk.json("schedule", "s", "--list")["seen"] is False
    desk.work("sleeper")
    listed = desk.json("schedule", "s", "--list")
    assert (listed["due_s"], listed["prompt"], listed["seen"]) == (said["due_s"], "look around", True)
    assert "cron 30 2 * * * Europe/Berlin   look around" in desk.run("schedule", "s", "--list").stdout
    assert "comes no more" in desk.run("schedule", "s", "--remove", "nightly").stdout
    assert desk.run("schedule", "s", "--list").stdout == "nothing is scheduled\n"
    desk.run("schedule", "s", "--remove", "nightly", status=3)


def test_a_moment_that_has_passed_begins_a_turn_at_once_and_only_once(desk: Desk) -> None:
    for _ in range(2):
        desk.run("schedule", "s", "0", "--at", "2026-01-01T09:00", "--id", "once")
        desk.work("sleeper")
    assert desk.run("log", "s").stdout.count("turn_opened") == 2
    assert (
        "it has come already"
        in desk.run("schedule", "s", "0", "--at", "2026-01-01T09:00", "--id", "once").stdout
    )


def test_a_moment_is_of_one_s_own_time_zone_unless_it_says_another(desk: Desk) -> None:
    local = desk.json("schedule", "s", "x", "--at", "2037-01-01T09:00")["due_s"]
    assert local == datetime(2037, 1, 1, 9).astimezone().timestamp()
    there = desk.json("schedule", "s", "x", "--at", "2037-01-01T09:00+09:00")["due_s"]
    assert there == datetime.fromisoformat("2037-01-01T09:00+09:00").timestamp()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("x",),
        ("x", "--every", "1h", "--cron", "0 3 * * *"),
        ("x", "--cron", "0 3"),
        ("x", "--cron", "0 3 * * *", "--zone", "Nowhere"),
        ("x", "--at", "soon"),
        ("x", "--every", "1h", "--list"),
        ("--list", "--remove", "x"),
    ],
)
def test_what_makes_no_schedule_is_refused(desk: Desk, words: tuple[str, ...]) -> None:
    desk.run("schedule", "s", *words, status=2)
    assert desk.run("schedule", "s", "--list").stdout == "nothing is scheduled\n"
