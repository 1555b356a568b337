"""Workspaces whose files are in a store beside the World: the log names them, and holds none."""

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.python import IO, Loop
from outlast.engine.load import load_state
from outlast.errors import AttemptLost, PacksGone
from outlast.session import Session
from outlast.sites import Ground, WorldPacks, kept_roots, stores_of
from outlast.trees import Trees
from outlast.worker import WorkerConfig, open_worker
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.drive import Drive, collect, open_store
from outlast.workspaces.virtual import virtual
from outlast.world import World
from tests.stays import supervised

pytestmark = pytest.mark.crash


async def _run(io: IO, prompt: str) -> object:
    await io.tool("write", path="notes.txt", content=prompt)
    return await io.tool("bash", command="cat notes.txt; echo seen >> notes.txt")


async def _turn(world: World, session: Session, agent: Agent, data: Path, prompt: str) -> Any:
    turn = await session.send(prompt)
    async with open_worker(world, {"tester": agent}, cast("Gateway", None), WorkerConfig(data)) as worker:
        await worker.work(until_idle=True)
    return (await turn.result()).value


async def test_files_are_in_the_store_that_the_workspace_names(world: World, tmp_path: Path) -> None:
    agent = Agent("tester", Loop(_run), tools=workspace_tools())
    workspace = virtual(store=f"{tmp_path}/store")
    session = await Session.open(world, "s-1", agent=agent, workspace=workspace)
    assert await _turn(world, session, agent, tmp_path / "one", "first\n") == "first"
    assert await _turn(world, session, agent, tmp_path / "two", "second\n") == "second"
    state = await load_state(world, "s-1")
    root = state.tree.root
    trees = await Trees.of(session)  # as `outlast files` reads them
    assert await trees.drive.read(root, "notes.txt") == b"second\nseen\n"
    with pytest.raises(PacksGone):
        await Drive(WorldPacks(world, "s-1"), world.tenant).read(root, "notes.txt")
    store = open_store(f"{tmp_path}/store", world.tenant)
    assert len(await store.names()) >= 4  # a pack for each call


async def test_an_attempt_that_was_succeeded_puts_nothing(world: World, tmp_path: Path) -> None:
    agent = Agent("tester", Loop(_run), tools=workspace_tools())
    await Session.open(world, "s-1", agent=agent, workspace=virtual(store=f"{tmp_path}/store"))
    state = await load_state(world, "s-1")
    store = open_store(f"{tmp_path}/store", world.tenant)
    async with supervised(tmp_path) as processes:
        ground = Ground(tmp_path, cast("Gateway", None), processes, 60.0)
        async with ground.open(world, state, agent, lambda _: None) as found:
            assert state.opened is not None
            await store.claim(state.opened.folder, state.fence + 1)
            assert found.site is not None
            await found.site.files.write("a", b"x")
            with pytest.raises(AttemptLost):
                await found.site.capture()
    assert await store.names() == []


async def test_a_store_that_is_gone_loses_nothing(world: World, tmp_path: Path) -> None:
    """It goes while a call runs, is still gone for the attempts after that, and comes back."""
    stored, away, calls = tmp_path / "store", tmp_path / "away", 0

    async def run(io: IO, prompt: str) -> object:
        nonlocal calls
        await io.tool("write", path="notes.txt", content="one")
        calls += 1
        if calls == 1:
            stored.rename(away)
            stored.write_text("in the way")
        await io.tool("write", path="more.txt", content="two")
        return await io.tool("bash", command="cat notes.txt more.txt")

    async def repair() -> None:
        turn = None
        while turn is None or not any(attempt.ended for attempt in turn.attempts):
            await anyio.sleep(0.02)  # nobody tells of an attempt's end, which is not the turn's
            turn = (await load_state(world, "s-1")).turn
        assert "cannot be used: Not a directory" in turn.attempts[-1].ended
        stored.unlink()
        away.rename(stored)

    agent = Agent("tester", Loop(run), tools=workspace_tools())
    session = await Session.open(world, "s-1", agent=agent, workspace=virtual(store=str(stored)))
    turn = await session.send("go")
    config = WorkerConfig(tmp_path / "data")
    async with (
        open_worker(world, {"tester": agent}, cast("Gateway", None), config) as worker,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(worker.work)
        tasks.start_soon(repair)
        assert (await turn.result()).value == "onetwo"
        tasks.cancel_scope.cancel()
    assert calls == 2


async def test_a_collection_leaves_what_any_log_names(world: World, tmp_path: Path) -> None:
    """Two sessions; of one erased the packs go, of the other those of every commit stay."""
    agent = Agent("tester", Loop(_run), tools=workspace_tools())
    workspace = virtual(store=f"{tmp_path}/store")
    for name in ("s-1", "s-2"):
        session = await Session.open(world, name, agent=agent, workspace=workspace)
        await _turn(world, session, agent, tmp_path / name, f"of {name}\n")
    roots = [root async for root in kept_roots(world)]
    assert len(set(roots)) >= 4
    store = open_store(f"{tmp_path}/store", world.tenant)
    before = await store.names()
    assert (await collect(store, kept_roots(world), world.tenant, grace_s=0.0)).removed == 0
    await world.erase("s-1")
    left = [root async for root in kept_roots(world)]
    assert set(left) < set(roots)
    assert 0 < (await collect(store, kept_roots(world), world.tenant, grace_s=0.0)).removed < len(before)
    for root in left:
        assert await Drive(store, world.tenant).read(root, "notes.txt")


async def test_a_fork_that_keeps_its_files_elsewhere_is_known_there(world: World, tmp_path: Path) -> None:
    """Its log begins as its source's, and so with the workspace of that."""
    agent = Agent("tester", Loop(_run), tools=workspace_tools())
    url, other = f"{tmp_path}/store", f"{tmp_path}/other"
    source = await Session.open(world, "s-1", agent=agent, workspace=virtual(store=other))
    fork = await source.fork(id="f-1", workspace=virtual(store=url))
    assert await _turn(world, fork, agent, tmp_path / "one", "first\n") == "first"
    root = (await load_state(world, "f-1")).tree.root
    assert await (await Trees.of(fork)).drive.read(root, "notes.txt") == b"first\nseen\n"
    assert set(await stores_of(world)) == {url, other}
    assert root in [one async for one in kept_roots(world, url)]
    assert [one async for one in kept_roots(world, other)] == []
    found = await collect(open_store(url, world.tenant), kept_roots(world, url), world.tenant, grace_s=0.0)
    assert found.removed == 0
    again = await fork.fork(id="g-1")
    await world.erase("f-1")
    await world.erase("s-1")
    found = await collect(open_store(url, world.tenant), kept_roots(world, url), world.tenant, grace_s=0.0)
    assert found.removed == 0
    assert await (await Trees.of(again)).drive.read(root, "notes.txt") == b"first\nseen\n"


async def test_packs_that_a_store_has_lost_are_missed_there(world: World, tmp_path: Path) -> None:
    agent = Agent("tester", Loop(_run), tools=workspace_tools())
    url = f"{tmp_path}/store"
    session = await Session.open(world, "s-1", agent=agent, workspace=virtual(store=url))
    await _turn(world, session, agent, tmp_path / "one", "first\n")
    store = open_store(url, world.tenant)
    await store.remove(await store.names())
    root = (await load_state(world, "s-1")).tree.root
    with pytest.raises(PacksGone, match="in the store that its workspace names"):
        await (await Trees.of(session)).drive.read(root, "notes.txt")
