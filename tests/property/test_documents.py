"""Edits of a document by applications and tools at once: whoever is told that an edit was made finds it in the log."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.documents import Document, edited, wish
from outlast.errors import BadEdit
from outlast.fold import records_of
from outlast.records import AnyEdit, AnyRecord, CallOutcome, Delete, DocumentEdited, EditRejected, Merge, Set
from outlast.session import Session
from outlast.squeezing import unsqueeze
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import open_memory
from outlast.worlds.postgres import open_postgres
from outlast.worlds.sqlite import open_sqlite
from tests.servers.postgres import PostgresServer
from tests.unit.engine_desk import Desk, opened

NAME = "doc"
LIMIT_S = 30.0
EVERY: st.SearchStrategy[AnyEdit] = (
    st.builds(Set, st.integers(), st.sampled_from(["/a", "/b", "/list/-", "/a/x"]))
    | st.builds(Merge, st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(), max_size=2))
    | st.builds(Delete, st.sampled_from(["/a", "/list/0", "/b/c"]))
    | st.builds(Set, st.just({"list": []}))
)


@dataclass(frozen=True)
class Wanted:
    """One edit that somebody makes after a while."""

    pause: int
    """Steps of everybody else that it lets go by."""
    edits: Sequence[AnyEdit]
    if_version: int | None = None
    named: bool = False
    """It has an id of its editor's own, and so goes through the inbox."""


WANTED = st.builds(
    Wanted,
    st.integers(0, 12),
    st.lists(EVERY, min_size=1, max_size=2),
    st.none() | st.none() | st.integers(0, 4),
    st.booleans(),
)
EDITORS = st.lists(st.lists(WANTED, min_size=1, max_size=3), max_size=3)


@dataclass
class Scene:
    """Applications and tools that edit one document, and what each of them was told."""

    world: World
    tools: Sequence[Sequence[Wanted]]
    told: dict[str, list[Document]] = field(default_factory=lambda: defaultdict[str, list[Document]](list))
    refused: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))

    async def play(self, applications: Sequence[Sequence[Wanted]]) -> list[AnyRecord]:
        """Let all edit at once while a worker carries the turn, and after it. Returns the log."""

        @tool(replay="safe")
        async def change(io: ToolIO, lane: int) -> list[int]:
            """Edit the document."""
            versions: list[int] = []
            for one in self.tools[lane]:
                await lets_go_by(one.pause)
                versions.append((await io.docs.edit(NAME, *one.edits, if_version=one.if_version)).version)
            return versions

        async def loop(io: IO, prompt: str) -> object:
            async def lane(inner: IO, number: int) -> str:
                return (await inner.result("change", {"lane": number})).status

            return await io.gather(*(partial(lane, number=number) for number in range(len(self.tools))))

        agent = Agent("tester", Loop(loop), tools=[change])
        session = await opened(self.world, agent)
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
            editors = [
                tasks.create_task(self._edits(session, f"app-{number}", wanted))
                for number, wanted in enumerate(applications)
            ]
            while (await session.head()).turn_open or not all(one.done() for one in editors):
                await Desk(self.world).work(agent)
                await asyncio.sleep(0)
            await Desk(self.world).work(agent)
        commits = await self.world.commits(session.id, 0, 1000)
        return [record for commit in commits for record in records_of(session.id, commit)]

    async def _edits(self, session: Session, by: str, wanted: Sequence[Wanted]) -> None:
        for number, one in enumerate(wanted):
            await lets_go_by(one.pause)
            own = f"{by}-{number}" if one.named else None
            try:
                made = await session.edit(NAME, *one.edits, if_version=one.if_version, by=by, id=own)
            except BadEdit:
                self.refused[by] += 1
            else:
                self.told[by].append(made)

    async def check(self, records: Sequence[AnyRecord], applications: Sequence[Sequence[Wanted]]) -> None:
        """Nobody's edit is lost in silence, and the value is what the edits make of it in the order of the log."""
        made = [record for record in records if isinstance(record, DocumentEdited)]
        values = await self._values(made)
        before: Any = None
        for version, (record, value) in enumerate(zip(made, values, strict=True), 1):
            assert record.version == version
            if record.edits.value() is not None:  # else it was set whole
                edits = msgspec.json.decode(bytes(record.edits.json), type=list[AnyEdit])
                said = edited(wish(NAME, edits, None), before, version - 1, None)
                assert msgspec.json.decode(said) == value
            before = msgspec.json.decode(msgspec.json.encode(value))
        found = await (await Session.find(self.world, "s-1")).document(NAME)
        assert (found.version, found.value) == (len(made), values[-1] if values else None)
        for number, wanted in enumerate(applications):
            by = f"app-{number}"
            own = [
                (record.version, value) for record, value in zip(made, values, strict=True) if record.by == by
            ]
            assert [(one.version, one.value) for one in self.told[by]] == own
            assert len(own) + self.refused[by] == len(wanted)
        outcomes = {record.call: record.status for record in records if isinstance(record, CallOutcome)}
        of_tools = [record for record in made if record.call]
        assert all(outcomes[record.call] == "ok" for record in of_tools)
        rejected = {record.call for record in records if isinstance(record, EditRejected) and record.call}
        assert all(outcomes[call] == "error" for call in rejected)
        done = sum(status == "ok" for status in outcomes.values())
        assert len({record.call for record in of_tools}) == done == len(self.tools) - self._failed(outcomes)

    def _failed(self, outcomes: dict[int, Any]) -> int:
        return sum(status != "ok" for status in outcomes.values())

    async def _values(self, made: Sequence[DocumentEdited]) -> list[Any]:
        names = [record.value.ref for record in made if record.value.ref]
        blobs: Mapping[str, bytes] = await self.world.get_many("s-1", names) if names else {}
        return [
            msgspec.json.decode(unsqueeze(blobs[record.value.ref]))
            if record.value.ref
            else record.value.value()
            for record in made
        ]


async def lets_go_by(steps: int) -> None:
    """Let others of this loop take so many steps."""
    for _ in range(steps):
        await asyncio.sleep(0)


async def race(
    world: World, applications: Sequence[Sequence[Wanted]], tools: Sequence[Sequence[Wanted]]
) -> None:
    scene = Scene(world, tools)
    await scene.check(await scene.play(applications), applications)


@given(applications=EDITORS, tools=EDITORS)
def test_nobodys_edit_is_lost_in_silence(applications: list[list[Wanted]], tools: list[list[Wanted]]) -> None:
    async def example() -> None:
        async with open_memory() as world:
            await race(world, applications, tools)

    anyio.run(example)


Opening = Callable[[], AbstractAsyncContextManager[World]]


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def test_nobodys_edit_is_lost_in_silence_in_a_store_on_disk(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        opening: Opening = partial(open_postgres, server.new_url())
    else:
        opening = partial(open_sqlite, tmp_path / "world.db")
    numbers = itertools.count()

    @asynccontextmanager
    async def fresh() -> AsyncGenerator[World]:
        async with opening() as world:
            yield world.for_tenant(f"t-{next(numbers)}")

    @settings(max_examples=min(60, settings().max_examples * 2))
    @given(applications=EDITORS, tools=EDITORS)
    def examples(applications: list[list[Wanted]], tools: list[list[Wanted]]) -> None:
        async def example() -> None:
            async with fresh() as world:
                await race(world, applications, tools)

        anyio.run(example)

    examples()
