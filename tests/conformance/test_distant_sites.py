"""`sandbox()` over providers whose boxes can have no directory of this machine, held to every case of the contract of
sites: real boxes by bubblewrap to which nothing is given, and those that stand-ins for the APIs of others run.

A few cases of each run in `make test`; `make test-all` runs them all, and a few over a real daemon.
"""

import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outlast.sandbox import SandboxProvider
from outlast.testing.workspace_contract import CASES, Case, Ground, Stand, lacking
from outlast.workspaces.boxed.description import sandbox
from outlast.workspaces.boxed.kind import SandboxKind
from outlast.workspaces.docker import Docker
from outlast.workspaces.hosted import Hosted
from outlast.workspaces.kubernetes import Kubernetes
from tests.conformance.test_workspaces import TRAITS, SiteGround
from tests.sandboxes.bare import Bare, bare_bubblewrap
from tests.servers.docker_engine import docker_engine
from tests.servers.hosted_client import Service
from tests.servers.kubernetes_api import kubeconfig, kubernetes_api
from tests.servers.podman import IMAGE, Missing, podman

pytestmark = [pytest.mark.timeout(120)]

_CORE = (
    "programs_run_in_it_or_are_refused",
    "what_is_captured_is_what_another_machine_opens",
)
CORE = {
    "bubblewrap": (
        *_CORE,
        "commands_and_files_see_the_same",
        "a_command_of_one_name_is_begun_once",
        "an_older_fence_changes_nothing_that_a_newer_one_shows",
        "commands_see_no_files_of_the_host",
        "commands_see_nothing_of_the_worker",
        "what_is_gone_stays_gone",
        "files_of_every_size_come_back",
        "packs_are_given_again_until_they_are_durable",
        "a_capture_names_what_changed",
    ),
    "docker": _CORE,
    "kubernetes": _CORE,
    "hosted": _CORE[:1],
}
"""Cases that run in `make test`; all of them do in `make test-all`. Hosted boxes are slow."""
Find = Callable[[Path], SandboxProvider]


@asynccontextmanager
async def _bubblewrap() -> AsyncGenerator[Find]:
    yield bare_bubblewrap


@asynccontextmanager
async def _docker() -> AsyncGenerator[Find]:
    with TemporaryDirectory() as top:
        async with docker_engine(Path(top)) as daemon:
            yield lambda _data: Bare(Docker(host=f"unix://{daemon.socket}"))


@asynccontextmanager
async def _kubernetes() -> AsyncGenerator[Find]:
    with TemporaryDirectory() as top:
        async with kubernetes_api(Path(top)) as cluster:
            config = str(kubeconfig(cluster, Path(top) / "config"))
            yield lambda _data: Kubernetes(kubeconfig=config, start_s=30)


@asynccontextmanager
async def _hosted() -> AsyncGenerator[Find]:
    with TemporaryDirectory() as top:
        service = Service(Path(top))
        try:
            # The client that needs no SDK gives its name for one that could be any other's.
            yield lambda data: Hosted("unix_local", data, client=service)
        finally:
            await service.end()


PROVIDERS: dict[str, Callable[[], AbstractAsyncContextManager[Find]]] = {
    "bubblewrap": _bubblewrap,
    "docker": _docker,
    "kubernetes": _kubernetes,
    "hosted": _hosted,
}


def _cases() -> list[object]:
    return [
        pytest.param(
            provider,
            case,
            id=f"{provider}-{case.name}",
            marks=[pytest.mark.crash if case.name in CORE[provider] else pytest.mark.full],
        )
        for provider in PROVIDERS
        for case in CASES
        if not case.needs - TRAITS["sandbox"]
    ]


@asynccontextmanager
async def _ground(find: Find, numbers: "itertools.count[int]", directory: Path) -> AsyncGenerator[Ground]:
    there = directory / f"machine-{next(numbers)}"
    there.mkdir()
    ground = SiteGround(there, TRAITS["sandbox"], sandbox(), SandboxKind(lambda _name, data: find(data)))
    try:
        yield ground
    finally:
        await ground.forget()


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    try:
        with podman() as socket:
            yield socket
    except Missing as missing:
        pytest.fail(str(missing))


@pytest.mark.full
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in CORE["bubblewrap"]], ids=lambda case: case.name
)
async def test_sites_of_a_real_daemon_without_mounts_keep_the_promise(case: Case, service: str) -> None:
    with TemporaryDirectory(prefix="d-") as directory:

        def find(_data: Path) -> SandboxProvider:
            return Bare(Docker(host=f"unix://{service}", image=IMAGE))

        factory = partial(_ground, find, itertools.count(1), Path(directory))
        async with factory() as ground:
            await case.run(Stand(ground, factory))


@pytest.mark.parametrize(("provider", "case"), _cases())
async def test_sites_without_mounts_keep_the_promise(provider: str, case: Case) -> None:
    # Short, for the paths of sockets.
    with TemporaryDirectory(prefix="d-") as directory:
        async with PROVIDERS[provider]() as find:
            factory = partial(_ground, find, itertools.count(1), Path(directory))
            async with factory() as ground:
                assert not lacking(case, ground)
                await case.run(Stand(ground, factory))
