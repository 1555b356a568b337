"""Documents as an application has them: whoever holds the session, an edit is applied or its maker is told why not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

import msgspec
import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.documents import Document, Shape
from outlast.engine.load import load_state
from outlast.engine.spacing import SNAPSHOT_AFTER
from outlast.errors import BadEdit, BadPayload, InputConflict
from outlast.records import Delete, DocumentEdited, EditRejected, Merge, Set
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import open_memory
from outlast.worlds.postgres import open_postgres
from outlast.worlds.sqlite import open_sqlite
from tests.servers.postgres import PostgresServer
from tests.unit.engine_desk import LIMIT_S, Desk, opened, records


class Plan(msgspec.Struct):
    steps: list[str] = []


async def waits(io: IO, prompt: str) -> object:
    await io.wait_for("go on")
    return (await io.docs.get("plan")).value


WAITER = Agent("tester", Loop(waits))
PLANNER = Agent("tester", Loop(waits), documents={"plan": Shape(Plan, version=2)})


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.server)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    match request.param:
        case "memory":
            opened: AbstractAsyncContextManager[World] = open_memory()
        case "sqlite":
            opened = open_sqlite(tmp_path / "world.db")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            opened = open_postgres(server.new_url())
    async with opened as made:
        yield made


async def idle(world: World, agent: Agent = WAITER) -> Session:
    return await Session.open(world, "s-1", agent=agent)


async def waiting(world: World, agent: Agent = WAITER) -> Session:
    """A session whose turn is open and waits; nobody holds it."""
    session = await opened(world, agent)
    await Desk(world).work(agent)
    return session


async def arrived(session: Session, count: int) -> None:
    """Return once so many inputs wait."""
    async with session.world.subscribe(session.id, inbox=True) as hints:
        while (await session.head()).waiting_inputs < count:
            await hints.wait(0.05)


async def edits_of(world: World) -> list[DocumentEdited | EditRejected]:
    return [record for record in await records(world) if isinstance(record, DocumentEdited | EditRejected)]


async def test_an_edit_of_an_idle_session_needs_no_worker(world: World) -> None:
    session = await idle(world)
    assert await session.document("plan") == Document("plan", 0, None)
    assert await session.edit("plan", Set({"a": 1}), by="ann") == Document("plan", 1, {"a": 1})
    assert (await session.edit("plan", Merge({"b": 2}), Delete("/a"), if_version=1)).value == {"b": 2}
    assert await session.document("plan") == Document("plan", 2, {"b": 2})
    head = await session.head()
    assert (head.seq, head.turn_open, head.waiting_inputs, head.status) == (3, False, 0, "new")
    assert [one.by for one in await edits_of(world)] == ["ann", ""]


async def test_what_is_refused_while_idle_changes_nothing(world: World) -> None:
    session = await idle(world, PLANNER)
    await session.edit("plan", Set({"steps": ["a"]}))
    with pytest.raises(BadEdit, match="it has version 1, not 0"):
        await session.edit("plan", Set({"steps": []}), if_version=0)
    with pytest.raises(BadEdit, match="Expected `str`"):
        await session.edit("plan", Set(1, "/steps/-"))
    with pytest.raises(BadPayload):
        await session.edit("plan", Set(object()))
    with pytest.raises(BadEdit, match="a document's name"):
        await session.edit("no name", Set(1))
    assert (await session.head()).seq == 2
    (edited,) = await edits_of(world)
    assert isinstance(edited, DocumentEdited)
    assert edited.shape == 2


async def test_an_edit_with_an_id_counts_once_whatever_has_come_since(world: World) -> None:
    session = await idle(world)
    first = await session.edit("plan", Set(["a"]), id="mine")
    await session.edit("plan", Set("b", "/-"))
    assert await session.edit("plan", Set(["a"]), id="mine") == first == Document("plan", 1, ["a"])
    with pytest.raises(InputConflict):
        await session.edit("plan", Set(["c"]), id="mine")
    for _ in range(2):
        with pytest.raises(BadEdit, match="it has version 2, not 7"):
            await session.edit("plan", Set(["c"]), id="late", if_version=7)
    assert await session.document("plan") == Document("plan", 2, ["a", "b"])
    assert [type(one).__name__ for one in await edits_of(world)] == [
        "DocumentEdited",
        "DocumentEdited",
        "EditRejected",
    ]


async def test_an_edit_while_a_turn_is_open_waits_for_the_worker_that_does_it(world: World) -> None:
    session = await waiting(world)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        edit = tasks.create_task(session.edit("plan", Set({"a": 1}), by="ann"))
        await arrived(session, 1)
        assert not edit.done()
        await Desk(world).work(WAITER)
    assert edit.result() == Document("plan", 1, {"a": 1})
    await session.signal("go on")
    await Desk(world).work(WAITER)
    assert (await session.result(1)).value == {"a": 1}


async def test_an_edit_of_an_open_turn_that_is_rejected_says_so_to_its_maker(world: World) -> None:
    session = await waiting(world, PLANNER)
    blind = await Session.find(world, "s-1")
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        refused = [
            tasks.create_task(_refusal(session, Set({"steps": 1}))),
            tasks.create_task(_refusal(blind, Set({"steps": []}), if_version=3)),
        ]
        await arrived(session, 2)
        await Desk(world).work(PLANNER)
    assert "Expected `array`" in refused[0].result()
    assert "it has version 0, not 3" in refused[1].result()


async def _refusal(session: Session, edit: Set, if_version: int | None = None) -> str:
    with pytest.raises(BadEdit) as refused:
        await session.edit("plan", edit, if_version=if_version)
    return str(refused.value)


async def test_who_does_not_know_the_shape_leaves_the_edit_to_a_worker(world: World) -> None:
    await idle(world, PLANNER)
    blind = await Session.find(world, "s-1")
    assert (await blind.edit("notes", Set("free"))).version == 1
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        edit = tasks.create_task(blind.edit("plan", Set({"steps": ["a"]})))
        await arrived(blind, 1)
        await Desk(world).work(PLANNER)
    assert edit.result().read(Plan) == Plan(["a"])
    seeing = await Session.find(world, "s-1", agent=PLANNER)
    assert (await seeing.edit("plan", Set("b", "/steps/-"))).version == 2


async def test_an_edit_that_somebody_stopped_waiting_for_is_still_made(world: World) -> None:
    session = await waiting(world)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await session.edit("plan", Set(1), id="mine")
    await Desk(world).work(WAITER)
    assert await session.edit("plan", Set(1), id="mine") == Document("plan", 1, 1)


async def test_a_follower_sees_the_document_and_then_each_version(world: World) -> None:
    session = await idle(world)
    await session.edit("plan", Set({"text": "x" * 20_000}))
    seen: list[Document] = []
    async with asyncio.timeout(LIMIT_S), aclosing(session.follow_document("plan")) as shown:
        async for document in shown:
            seen.append(document)
            if len(seen) == 4:
                break
            await session.edit("notes", Set(len(seen)))
            await session.edit("plan", Set(len(seen), "/n"))
    assert [one.version for one in seen] == [1, 2, 3, 4]
    assert [one.value.get("n") for one in seen] == [None, 1, 2, 3]
    assert len(seen[0].value["text"]) == 20_000


async def test_watchers_are_shown_edits(world: World) -> None:
    session = await idle(world)
    await session.edit("plan", Set(1), by="ann", id="mine")
    async with asyncio.timeout(LIMIT_S), aclosing(session.follow()) as shown:
        async for event in shown:
            if event.kind == "document.edited":
                assert (event.name, event.payload.value()) == ("plan", 1)
                assert event.facts == {"version": 1, "input": "mine", "by": "ann"}
                return


async def test_a_session_that_is_only_edited_is_read_from_a_snapshot(world: World) -> None:
    session = await idle(world)
    for number in range(SNAPSHOT_AFTER + 10):
        await session.edit("plan", Set(number))
    head = await session.head()
    assert head.snapshot_seq == SNAPSHOT_AFTER + 2
    whole, newest = await load_state(world, "s-1"), await load_state(world, "s-1", head.snapshot_seq)
    assert msgspec.structs.replace(whole, held=[]) == msgspec.structs.replace(newest, held=[])
    assert await session.document("plan") == Document("plan", SNAPSHOT_AFTER + 10, SNAPSHOT_AFTER + 9)
    await session.send("go", id="in-1")
    await session.signal("go on")
    await Desk(world).work(WAITER)
    assert (await session.result(1)).value == SNAPSHOT_AFTER + 9


async def test_edits_of_a_tool_and_of_applications_end_in_one_order_and_none_is_lost(world: World) -> None:
    @tool
    async def count(io: ToolIO) -> str:
        """Count."""
        for at in range(10):
            await io.docs.edit("plan", Set(at, f"/tool-{at}"))
            await asyncio.sleep(0.01)
        return "counted"

    async def counts(io: IO, prompt: str) -> object:
        for at in range(5):
            await io.docs.edit("plan", Set(at, f"/loop-{at}"))
        return await io.tool(count)

    agent = Agent("tester", Loop(counts), tools=[count])
    session = await idle(world, agent)

    async def ann(name: str) -> None:
        for at in range(5):
            await session.edit("plan", Set(at, f"/{name}-{at}"))

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        for name in ("ann", "bob", "cleo"):
            tasks.create_task(ann(name))
        await session.send("go")
        tasks.create_task(work_on(session, agent, edits=30))
    found = await session.document("plan")
    wanted = {f"{who}-{at}" for who in ("ann", "bob", "cleo", "loop") for at in range(5)}
    assert set(found.value) == wanted | {f"tool-{at}" for at in range(10)}
    versions = [one.version for one in await edits_of(world) if isinstance(one, DocumentEdited)]
    assert versions == list(range(1, 31))


async def work_on(session: Session, agent: Agent, *, edits: int) -> None:
    """Advance it until so many edits were made."""
    async with session.world.subscribe(session.id, inbox=True) as hints:
        while (await session.document("plan")).version < edits:
            await Desk(session.world).work(agent)
            await hints.wait(0.01)
