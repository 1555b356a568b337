"""A session with our own tools in a hosted sandbox: its machine is lost between turns, and it is forked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.assistant import Assistant
from outlast.engine.attempt import Surroundings
from outlast.fold import SessionState
from outlast.session import Session
from outlast.sites import Ground
from outlast.workspace import Note
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.boxed.kind import SandboxKind
from outlast.workspaces.hosted import Hosted
from outlast.workspaces.sandbox import sandbox
from outlast.worlds.memory import open_memory
from tests.crash.coding import NoGateway
from tests.servers.hosted_client import Service
from tests.stays import supervised
from tests.unit.engine_desk import Desk
from tests.unit.listed_model import Listed, says, texts, wants

pytestmark = [pytest.mark.full, pytest.mark.timeout(180)]


async def test_a_session_outlives_its_hosted_machine_and_a_fork_has_its_files() -> None:
    model = Listed(
        says("", wants("bash", command="echo one >> count; cat count")),
        says("written"),
        says("", wants("bash", command="echo two >> count; cat count")),
        says("again"),
        says("", wants("bash", command="cat count")),
        says("forked"),
    )
    workspace = sandbox("hosted", idle_s=60)
    agent = Agent("coder", Assistant(model), tools=workspace_tools(), workspace=workspace)
    with TemporaryDirectory(prefix="d-") as top:
        service = Service(Path(top))
        kind = SandboxKind(lambda _name, data: Hosted("unix_local", data, client=service))
        async with open_memory() as world, supervised(Path(top)) as processes:
            ground = Ground(Path(top), cast("Gateway", NoGateway()), processes, 60.0, kinds={"sandbox": kind})

            @asynccontextmanager
            async def surroundings(
                state: SessionState, agent: Agent, note: Note
            ) -> AsyncGenerator[Surroundings]:
                async with ground.open(world, state, agent, note) as around:
                    yield around

            session = await Session.open(world, "s-1", agent=agent, workspace=workspace)
            try:
                for number in (1, 2):
                    await session.send("go", id=f"in-{number}")
                    await Desk(world, surroundings=surroundings).work(agent)
                    assert (await session.result(number)).status == "done"
                    await service.end()  # the machine is gone, with all that was in it
                forked = await session.fork(id="s-2")
                await forked.send("look", id="in-3")
                await Desk(world, surroundings=surroundings).work(agent)
                assert (await forked.result(3)).status == "done"
            finally:
                await service.end()
        told = [texts(request)[-1] for request in model.requests]
        assert "one" in told[1]
        assert "one\ntwo" in told[3]
        assert "one\ntwo" in told[5]
        assert service.count == 3
