"""What a workspace's way out tells stands in the session's log: soon, counted, and bounded."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outlast.adapter import Agent, Places
from outlast.adapters.python import IO, Loop
from outlast.cli.network import event_line, line_of
from outlast.engine.network import KINDS
from outlast.records import NetworkAsked
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.watch import events
from outlast.workspace import Note, Passage, Stay
from outlast.world import START, World
from tests.paper import Paper, PaperSite, Scrap, on_paper
from tests.unit.engine_desk import Desk, records

pytestmark = pytest.mark.anyio


@dataclass
class Reaching(Paper):
    """A kind whose sites have a way out."""

    note: Note | None = None

    @asynccontextmanager
    async def open(self, reference: Mapping[str, Any], stay: Stay) -> AsyncGenerator[PaperSite]:
        self.note = stay.note
        async with super().open(reference, stay) as site:
            yield site


@pytest.fixture(autouse=True)
def _no_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(places: Places, *, workspace: bool) -> None:
        pass

    monkeypatch.setattr("outlast.sites.make_places", none)


def refused(host: str) -> Passage:
    return Passage("refused", host, 443, why=f"{host} is not allowed in this sandbox")


def used(path: str, status: int = 200) -> Passage:
    return Passage("used", "forge.example", 443, "forge", "POST", path, status)


async def asked(world: World, *passages: Passage) -> list[NetworkAsked]:
    """What stands in the log when a turn in which this was asked has ended."""
    kind = Reaching()

    @tool(replay="safe")
    async def ask(io: ToolIO) -> str:
        assert kind.note is not None
        for passage in passages:
            kind.note(passage)
        return "asked"

    async def run(io: IO, prompt: str) -> object:
        return await io.tool("ask")

    agent = Agent("tester", Loop(run), tools=[ask])
    session = await Session.open(world, "s-1", agent=agent, workspace=Scrap())
    await session.send("go", id="in-1")
    await Desk(world, surroundings=on_paper(world, kind, Path("/nonexistent-data"))).work(agent)
    assert (await session.result(1)).status == "done"
    return [one for one in await records(world) if isinstance(one, NetworkAsked)]


async def test_a_host_that_is_refused_is_told_once_with_why_and_then_counted(world: World) -> None:
    found = await asked(world, *[refused("a.example")] * 25, refused("b.example"))
    told = [(one.host, one.count) for one in found]
    assert told == [("a.example", 1), ("a.example", 10), ("b.example", 1), ("a.example", 25)]
    assert line_of(found[-1]) == (
        "  ✗ network  a.example:443 was refused: a.example is not allowed in this sandbox (25 times)"
    )


async def test_each_use_of_a_credential_names_host_path_method_and_status(world: World) -> None:
    [one, other] = await asked(world, used("/site.git/git-receive-pack"), used("/site.git/info/refs", 401))
    assert line_of(one) == "  » used     forge   POST forge.example:443/site.git/git-receive-pack   200"
    assert (other.path, other.status, other.credential, other.count) == (
        "/site.git/info/refs",
        401,
        "forge",
        1,
    )


async def test_what_is_asked_in_a_turn_is_bounded_whatever_is_asked(world: World) -> None:
    many = [refused(f"{number}.example") for number in range(3000)]
    found = await asked(world, *many, *(used(f"/{number}") for number in range(3000)))
    assert sum(one.passed == "refused" for one in found) <= KINDS + 5
    assert sum(one.passed == "used" for one in found) <= KINDS + 5
    counted: dict[str, int] = {one.about: one.count for one in found}
    assert sum(counted.values()) == 6000


async def test_a_watcher_sees_them_as_the_log_tells_them(world: World) -> None:
    found = await asked(world, refused("a.example"), used("/x"))
    shown: list[str] = []
    async for event in events(world, "s-1", START):
        if event.kind == "network.asked":
            shown.append(event_line(event))
        if event.kind == "turn.settled":
            break
    assert shown == [line_of(one) for one in found]


async def test_text_that_is_no_unicode_is_written_down_all_the_same(world: World) -> None:
    [one] = await asked(world, refused("\udcff" + "x" * 5000))
    assert len(one.host) < 400
