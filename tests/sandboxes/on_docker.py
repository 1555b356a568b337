"""Where the contract makes boxes in Docker: on a stand-in for its daemon, and on a real one, Podman's."""

import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from outlast.ids import new_id
from outlast.sandbox import Ability, Ref, SandboxProvider, Spec
from outlast.testing.sandbox_contract import Ground, Recipe
from outlast.workspaces.docker import Docker
from outlast.workspaces.docker.address import Address
from outlast.workspaces.docker.engine import engine_at
from tests.sandboxes.grounds import MARK, marked
from tests.servers.docker_engine import Daemon, docker_engine
from tests.servers.podman import IMAGE


def provider_at(socket: str, image: str) -> SandboxProvider:
    return Docker(host=f"unix://{socket}", image=image)


class OnDocker:
    """Boxes of a daemon that listens at a socket."""

    def __init__(self, socket: str, image: str, lacks: frozenset[Ability] = frozenset()) -> None:
        self.socket = socket
        self.image = image
        self.name = new_id("ground")
        self._lacks = lacks

    @property
    def abilities(self) -> frozenset[Ability]:
        return self.provider().abilities - self._lacks

    @property
    def spec(self) -> Spec:
        return Spec(self.name, env={MARK: self.name})

    def provider(self) -> SandboxProvider:
        return provider_at(self.socket, self.image)

    def recipe(self) -> Recipe | None:
        return Recipe(f"{__name__}:provider_at", (self.socket, self.image))

    async def kill_supervisor(self, ref: Ref) -> None:
        async with engine_at(Address(self.socket)) as engine:
            found = await engine.ask("GET", f"/containers/{ref['container']}/json")
        os.kill(int(found.body["State"]["Pid"]), signal.SIGKILL)

    async def left(self, ref: Ref) -> Sequence[str]:
        found = [f"process {pid}" for pid in marked(self.name)]
        async with engine_at(Address(self.socket)) as engine:
            standing = await engine.ask("GET", f"/containers/{ref['container']}/json")
            volumes = await engine.ask("GET", "/volumes")
        if standing.status == 200:
            found.append("its container")
        return [*found, *(str(one["Name"]) for one in volumes.body["Volumes"] or ())]


class OnStandIn(OnDocker):
    def __init__(self, daemon: Daemon) -> None:
        # Control groups are the real daemon's; what is asked of them is looked at where it arrives.
        super().__init__(daemon.socket, "python:3.13", frozenset({"limits"}))
        self._daemon = daemon

    async def kill_supervisor(self, ref: Ref) -> None:
        running = self._daemon.held[str(ref["container"])].running
        assert running is not None
        await running.kill_first()


@asynccontextmanager
async def on_docker_stand_in() -> AsyncGenerator[Ground]:
    with TemporaryDirectory() as directory:
        async with docker_engine(Path(directory)) as daemon:
            yield OnStandIn(daemon)


@asynccontextmanager
async def on_podman(socket: str) -> AsyncGenerator[Ground]:
    """On a service that listens at `socket`."""
    ground = OnDocker(socket, IMAGE)
    try:
        yield ground
    finally:
        for found in await ground.provider().list({}):
            await ground.provider().destroy(found.ref)
        assert not marked(ground.name), "a process of the box is left"
