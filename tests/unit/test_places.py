"""Where a session's files are: its own, whatever other Worlds and tenants call theirs."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from outlast.engine.places import fresh_home, made_for, make_places, places_of
from outlast.fold import SessionState
from outlast.records import SessionOpened
from outlast.session import Session
from outlast.workspaces.local import local
from outlast.worlds.memory import open_memory

OLD = SessionOpened("s", "agent", "scripted")
"""As it was written before a session named its directories."""
NEW = msgspec.structs.replace(OLD, folder="s-abcdefghijklmnop")


def _state(opened: SessionOpened | None) -> SessionState:
    return SessionState(session="s", opened=opened)


async def test_sessions_of_one_id_in_two_worlds_and_of_two_tenants_share_no_directory(tmp_path: Path) -> None:
    async with open_memory() as one, open_memory() as other:
        worlds = [one, other, one.for_tenant("acme"), other.for_tenant("acme")]
        sessions = [await Session.open(world, "s", agent="agent") for world in worlds]
        places = [places_of(tmp_path, await session.state()) for session in sessions]
    assert len({path for place in places for path in (place.home, place.cwd)}) == 8


async def test_a_session_has_the_same_directories_whoever_opens_it_again(tmp_path: Path) -> None:
    async with open_memory() as world:
        first = await Session.open(world, "s", agent="agent")
        again = await Session.open(world, "s", agent="agent")
        places = [places_of(tmp_path, await session.state()) for session in (first, again)]
    assert places[0] == places[1]


async def test_what_a_session_was_opened_with_stands(tmp_path: Path) -> None:
    async with open_memory() as world:
        session = await Session.open(
            world, "s", agent="agent", home=tmp_path / "mine", workspace=local(tmp_path)
        )
        places = places_of(tmp_path / "data", await session.state())
    assert (places.home, places.cwd) == (tmp_path / "mine", tmp_path)


@pytest.mark.parametrize("opened", [OLD, None])
def test_a_session_of_an_older_release_keeps_its_directories(
    tmp_path: Path, opened: SessionOpened | None
) -> None:
    places = places_of(tmp_path, _state(opened))
    assert (places.home, places.cwd) == (tmp_path / "homes" / "s", tmp_path / "workspaces" / "s")


def test_directories_are_named_in_full_whatever_directory_the_worker_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places = places_of(Path("data"), _state(NEW))
    assert places.home == tmp_path / "data" / "homes" / NEW.folder
    assert fresh_home(Path("data"), "s").parent == tmp_path / "data" / "homes"


def test_no_two_fresh_homes_are_one(tmp_path: Path) -> None:
    assert fresh_home(tmp_path, "s") != fresh_home(tmp_path, "s")


@pytest.mark.parametrize("opened", [OLD, NEW])
def test_what_was_made_for_a_session_is_where_it_worked(tmp_path: Path, opened: SessionOpened) -> None:
    places = places_of(tmp_path, _state(opened))
    make_places(places, workspace=True)
    assert made_for(tmp_path, "s", opened) == [places.home, places.cwd]


def test_a_home_that_was_recorded_was_made_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "data" / "homes").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    home = fresh_home(tmp_path / "data", "s")
    opened = msgspec.structs.replace(NEW, home=str(home), cwd=str(tmp_path))
    assert made_for(tmp_path / "data", "s", opened) == [home]
    assert made_for(tmp_path / "link", "s", opened) == [home]


@pytest.mark.parametrize(
    "home",
    [
        "homes/other",
        "homes/other-abcdefghijklmnop",
        "homes/s-own",
        "homes/s/..",
        "homes",
        "s",
        "elsewhere/homes/s",
        "homes/../s",
        "homes/s\0",
        "homes/s/s",
    ],
)
def test_a_home_of_somebody_elses_was_not_made_for_the_session(tmp_path: Path, home: str) -> None:
    for name in ("homes/s/s", "homes/other", "elsewhere/homes/s"):
        (tmp_path / name).mkdir(parents=True)
    opened = msgspec.structs.replace(NEW, home=f"{tmp_path}/{home}", cwd=str(tmp_path))
    assert made_for(tmp_path, "s", opened) == []


@pytest.mark.parametrize("folder", ["..", ".", "../../x", "other", "other-abcdefghijklmnop", "s-", "/etc"])
def test_a_log_cannot_have_directories_removed_that_are_not_the_sessions(tmp_path: Path, folder: str) -> None:
    make_places(places_of(tmp_path, _state(OLD)), workspace=True)
    assert made_for(tmp_path, "s", msgspec.structs.replace(OLD, folder=folder)) == []


def test_a_directory_of_the_users_own_was_not_made_for_the_session(tmp_path: Path) -> None:
    opened = msgspec.structs.replace(NEW, cwd=str(tmp_path / "workspaces" / NEW.folder))
    make_places(replace(places_of(tmp_path, _state(NEW)), cwd=Path(opened.cwd)), workspace=True)
    assert made_for(tmp_path, "s", opened) == [tmp_path / "homes" / NEW.folder]
