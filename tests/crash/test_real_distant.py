"""Sandboxes in a cluster under real workers: worker or pod dies, files and commands stay where the log is."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast.gate import Point
from outlast.records import AttemptEnded
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.workspaces.kubernetes import open_kubernetes
from outlast.workspaces.sandbox import sandbox
from tests.crash.coding import DONE, TICKS
from tests.crash.real import LIMIT_S, Yard, yard
from tests.servers.kubernetes_api import Cluster, kubeconfig, kubernetes_api

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what the stand-in runs pods in"),
]


@dataclass
class Place:
    """A cluster, and workers that find it as `kubectl` does."""

    cluster: Cluster
    yard: Yard

    async def begin(self, name: str, agent: str) -> Session:
        workspace = sandbox("kubernetes", idle_s=60.0)
        session = await Session.open(self.yard.world, name, agent=agent, workspace=workspace)
        await session.send("go", id="in-1")
        return session

    async def pod(self, session: Session) -> str:
        opened = (await session.state()).opened
        assert opened is not None
        (found,) = await open_kubernetes(self.yard.directory).list({"outlast": opened.folder})
        return str(found.ref["pod"])

    async def ticks(self, session: Session, count: int) -> None:
        """Wait until the command has gone so far."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                found = list(self.cluster.folder.glob("*-work/ticks"))
                if len(found) == 1 and len(found[0].read_text().split()) >= count:
                    return
                await asyncio.sleep(0.02)


@asynccontextmanager
async def at(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Place]:
    (directory / "pods").mkdir()
    async with kubernetes_api(directory / "pods") as cluster:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(cluster, directory / "config")))
        async with yard(directory) as place:
            yield Place(cluster, place)


async def end(session: Session) -> object:
    async with asyncio.timeout(2 * LIMIT_S):
        return (await session.result(1)).value


def worker_of(supervisor: int) -> int:
    """The worker below a supervisor."""
    (child, *_) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(child)


@pytest.mark.crash
async def test_a_command_in_a_pod_outlives_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at(tmp_path, monkeypatch) as place:
        victim = await place.yard.victim("attach", 0, Spot(Point.RELEASED, nth=99))
        session = await place.begin("attach", "watcher")
        victim.tell()
        await victim.says("claimed")
        victim.tell()
        await place.ticks(session, 5)
        pod = await place.pod(session)
        os.kill(worker_of(victim.process.pid), 9)
        await victim.dies()
        place.yard.hold.unlink()
        # It was begun once, and did each step once.
        assert await end(session) == ["ok", "over", f"{TICKS + 2}\nsorted"]
        assert await place.pod(session) == pod


@pytest.mark.full
async def test_a_pod_that_is_deleted_beneath_a_command_is_made_anew_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at(tmp_path, monkeypatch) as place:
        place.yard.hold.unlink()
        session = await place.begin("killed", "watcher")
        await place.ticks(session, 5)
        provider = open_kubernetes(place.yard.directory)
        (found,) = await provider.list({})
        await provider.destroy(found.ref)
        assert await end(session) == ["ok", "over", f"{TICKS + 2}\nsorted"], (
            "nothing is left of the first try"
        )
        ended = [one.error for one in await place.yard.records("killed") if isinstance(one, AttemptEnded)]
        assert len(ended) == 1
        assert "has ended" in ended[0]


@pytest.mark.parametrize(
    "spot",
    [
        pytest.param(Spot(Point.BEFORE_CAPTURE, "verify", 2), marks=pytest.mark.full),
        pytest.param(Spot(Point.AFTER_CAPTURE, "verify", 3), marks=pytest.mark.full),
        pytest.param(Spot(Point.AFTER_OUTCOME, "verify", 3), marks=pytest.mark.crash),
    ],
    ids=str,
)
async def test_files_of_a_pod_are_at_the_call_of_the_log(
    spot: Spot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at(tmp_path, monkeypatch) as place:
        victim = await place.yard.victim("files", 0, spot)
        session = await place.begin("files", "coder")
        await place.yard.send(victim)
        await victim.says("struck")
        await victim.dies()
        lines = str(await end(session)).split("\n")
        done = DONE["log.txt"].split()
        assert lines[: len(done)] == done
        if spot.point == Point.AFTER_OUTCOME:
            await shown(place, session)


async def shown(place: Place, session: Session) -> None:
    """What the log has of the files can be seen though the pod is gone, and a fork goes on from there."""
    assert "kubernetes boxes set up here" in " ".join((await outlast(place, "doctor")).split())
    pod = await place.pod(session)
    assert f'"pod":"{pod}"' in await outlast(place, "sandbox", "ls", "--provider", "kubernetes", "--json")
    await outlast(place, "sandbox", "rm", "--all", "--provider", "kubernetes", "--yes")
    assert pod not in place.cluster.running
    said = await outlast(place, "files", session.id, "cat", "log.txt")
    assert said == DONE["log.txt"]
    await outlast(place, "fork", session.id, "--id", "forked")
    forked = await Session.find(place.yard.world, "forked")
    await forked.send("again", id="in-2")
    async with asyncio.timeout(2 * LIMIT_S):
        assert str((await forked.result(2)).value).startswith(DONE["log.txt"].rstrip())


async def outlast(place: Place, *words: str) -> str:
    where = {"OUTLAST_DATA_DIR": str(place.yard.directory / "data"), "OUTLAST_WORLD": place.yard.url}
    asked = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "outlast.cli",
        *words,
        env={**os.environ, **where},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await asked.communicate()
    assert asked.returncode == 0
    return said.decode()
