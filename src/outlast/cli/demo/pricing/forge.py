"""A stand-in forge: pull requests of bare repositories, and CI that really runs the tests of what was pushed.

The first pull request of a repository is opened, and nobody is ever told so: just then the time of the function is over
that asked for it. From then on the forge answers as a forge does.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from outlast.clock import Clock
from outlast.groups import task_group
from outlast.serving import Server, until_gone

CI_S: Final = 15.0
_CLOSE_S: Final = 1.0


class PullRequest(msgspec.Struct):
    """One that was opened."""

    number: int
    url: str
    head: str
    title: str
    created_at_s: float
    base: str = "main"
    checks: str = "pending"
    """`pending`, `pass` or `fail`."""

    def shown(self) -> Mapping[str, Any]:
        """As `gh` lists it, with its checks."""
        created = datetime.fromtimestamp(self.created_at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "number": self.number,
            "url": self.url,
            "state": "OPEN",
            "title": self.title,
            "headRefName": self.head,
            "baseRefName": self.base,
            "createdAt": created,
            "checks": self.checks,
        }


@dataclass
class Repository:
    """A bare repository, and what was asked of the forge about it."""

    path: Path
    told: Callable[[PullRequest], Awaitable[None]] | None = None
    """Is told when the CI of a pull request is over: a webhook."""
    opened: list[PullRequest] = field(default_factory=list[PullRequest])
    landed: anyio.Event = field(default_factory=anyio.Event)
    """The first pull request is open, and whoever asked for it waits for an answer."""

    def has(self, branch: str) -> bool:
        """Whether the branch was pushed."""
        asked = ["git", "-C", str(self.path), "rev-parse", "-q", "--verify", f"refs/heads/{branch}"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0


class Forge:
    """Serves repositories below `/NAME`."""

    def __init__(self, clock: Clock, tasks: anyio.abc.TaskGroup, ci_s: float) -> None:
        self.repositories: dict[str, Repository] = {}
        self.url = ""
        self._clock = clock
        self._tasks = tasks
        self._ci_s = ci_s

    def app(self) -> Starlette:
        """What it answers."""
        return Starlette(
            routes=[
                Route("/{name}/pulls", self._list, methods=["GET"]),
                Route("/{name}/pulls", self._create, methods=["POST"]),
            ]
        )

    async def _list(self, request: Request) -> Response:
        repository = self.repositories[request.path_params["name"]]
        head = request.query_params.get("head", "")
        return JSONResponse([one.shown() for one in repository.opened if head in {"", one.head}])

    async def _create(self, request: Request) -> Response:
        name = request.path_params["name"]
        repository, asked = self.repositories[name], await request.json()
        head = str(asked["head"])
        if not await anyio.to_thread.run_sync(repository.has, head):
            return _refused(f"the branch {head} was not pushed")
        known = next((one for one in repository.opened if one.head == head), None)
        if known is not None:
            return _refused(f"a pull request for branch {head} already exists:\n{known.url}")
        number = len(repository.opened) + 1
        url = f"{self.url}/{name}/pull/{number}"
        found = PullRequest(number, url, head, str(asked["title"]), self._clock.now())
        repository.opened.append(found)
        self._tasks.start_soon(self._check, repository, found)
        if number == 1:
            repository.landed.set()
            await until_gone(request.receive)
        return JSONResponse(found.shown(), 201)

    async def _check(self, repository: Repository, one: PullRequest) -> None:
        """CI: check the branch out, run its tests, and tell whoever wants to know."""
        begun = anyio.current_time()
        passed = await anyio.to_thread.run_sync(
            _tests_pass, repository.path, one.head, abandon_on_cancel=True
        )
        await anyio.sleep(max(0.0, self._ci_s - (anyio.current_time() - begun)))
        one.checks = "pass" if passed else "fail"
        if repository.told is not None:
            await repository.told(one)


def _refused(why: str) -> Response:
    return JSONResponse({"message": why}, 422)


def _tests_pass(repository: Path, branch: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="outlast-ci-") as directory:
        clone = ["git", "clone", "-q", "--branch", branch, str(repository), "work"]
        work = Path(directory) / "work"
        environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        for argv, cwd in ((clone, Path(directory)), ([sys.executable, "-m", "unittest", "-q"], work)):
            if subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, check=False).returncode:
                return False
    return True


@asynccontextmanager
async def open_forge(clock: Clock, *, ci_s: float = CI_S) -> AsyncGenerator[Forge]:
    """A forge on this machine, for as long as the context lasts.

    Args:
        ci_s: how long CI lasts at least, the tests included.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        async with task_group() as tasks:
            forge = Forge(clock, tasks, ci_s)
            forge.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            server = Server(forge.app(), _CLOSE_S)
            tasks.start_soon(server.run_until_ended, [listener])
            try:
                yield forge
            finally:
                server.end()
                tasks.cancel_scope.cancel()
