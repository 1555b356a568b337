"""The scripted model server inside this process."""

import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from outlast.clock import Clock, SystemClock
from outlast.groups import task_group
from outlast.serving import Server
from outlast.testing.models.anthropic import Anthropic
from outlast.testing.models.dialect import Dialect
from outlast.testing.models.errors import CannotListen
from outlast.testing.models.ledger import Ledger, RequestRecord, open_ledger
from outlast.testing.models.openai_chat import OpenAIChat
from outlast.testing.models.openai_responses import OpenAIResponses
from outlast.testing.models.player import Player
from outlast.testing.models.script import Script, load_script
from outlast.testing.models.spawned import SpawnedModels, spawn_models

DIALECTS: Final[tuple[Dialect, ...]] = (Anthropic(), OpenAIResponses(), OpenAIChat())
_STOP_S: Final = 1.0
_MODEL_ID: Final = "scripted"


class ScriptedModels:
    """A model provider that says what a script tells it to, and counts what it is asked.

    Attributes:
        base_url: where it listens, without a path and without a slash at the end.
    """

    def __init__(self, base_url: str, ledger: Ledger) -> None:
        self.base_url = base_url
        self._ledger = ledger

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """Every request that reached it, by number."""
        return self._ledger.requests

    def find_body(self, n: int) -> bytes | None:
        """Return the body of request `n`; None if there is none, or later ones pushed it out of memory."""
        return self._ledger.find_body(n)

    async def wait_until(
        self, condition: Callable[[Sequence[RequestRecord]], bool], timeout_s: float = 10.0
    ) -> None:
        """Return when `condition` holds for the requests so far.

        Raises:
            TimeoutError: it did not within `timeout_s`.
        """
        await self._ledger.wait_until(condition, timeout_s)

    @classmethod
    @asynccontextmanager
    async def serve(
        cls,
        script: Script | Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Path | None = None,
        clock: Clock | None = None,
    ) -> "AsyncGenerator[ScriptedModels]":
        """Serve a script from this process's event loop until the block ends, and at most a second longer.

        Args:
            script: what to say, or the file that says it.
            host: address to listen on.
            port: port to listen on; 0 for any free one.
            log: a file to append the requests to, as lines of JSON (`read_log`).
            clock: where the times on the records come from; the machine's by default.

        Raises:
            BadScript: the script file is none.
            CannotListen: the address is not to be had.
            OSError: the log cannot be read or written.
        """
        said = load_script(script) if isinstance(script, Path) else script
        with open_ledger(clock or SystemClock(), log) as ledger, _listen(host, port) as listener:
            server = Server(_app(said, ledger), _STOP_S)
            async with task_group() as tasks:
                tasks.start_soon(server.run_until_ended, [listener])
                try:
                    yield cls(f"http://{host}:{listener.getsockname()[1]}", ledger)
                finally:
                    ledger.seal()
                    server.end()

    @staticmethod
    def spawn(
        script: Script | Path, *, port: int = 0, log: Path | None = None
    ) -> AbstractAsyncContextManager[SpawnedModels]:
        """Serve a script from a process of its own, killed when the block ends; see `spawn_models`."""
        return spawn_models(script, port=port, log=log)


@contextmanager
def _listen(host: str, port: int) -> Generator[socket.socket]:
    # asyncio switches Nagle's delay off only where the protocol is named, and a delayed frame costs 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        # A server that takes the place of a killed one finds its port waiting for late packets.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            # Connections made before the event loop accepts them wait here.
            listener.listen(2048)
        except OSError as error:
            raise CannotListen(host=host, port=port, reason=error.strerror) from error
        yield listener


def _app(script: Script, ledger: Ledger) -> Starlette:
    routes: list[BaseRoute] = []
    for dialect in DIALECTS:
        player = Player(dialect, script, ledger)
        paths = [dialect.path, *dialect.side_paths()]
        routes.extend(Route(path, player, methods=["POST"]) for path in paths)
    pages = _Pages(ledger)
    routes += [
        Route("/", pages.hello),
        Route("/v1/models", pages.models),
        Route("/v1/models/{id}", pages.model),
        Route("/_script/requests", pages.requests),
        Route("/_script/requests/{n:int}/body", pages.body),
    ]
    return Starlette(routes=routes)


class _Pages:
    """What the server answers beside model calls; none of it is recorded."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def hello(self, _request: Request) -> Response:
        return PlainTextResponse(
            "This is a scripted model server. GET /_script/requests lists what it was asked.\n"
        )

    async def models(self, _request: Request) -> Response:
        # Both providers' shapes at once: each client reads its own members and passes over the others.
        models = [_model(_MODEL_ID)]
        return _json(
            {"object": "list", "data": models, "has_more": False, "first_id": _MODEL_ID, "last_id": _MODEL_ID}
        )

    async def model(self, request: Request) -> Response:
        return _json(_model(request.path_params["id"]))

    async def requests(self, _request: Request) -> Response:
        return _json({"requests": self._ledger.requests})

    async def body(self, request: Request) -> Response:
        n: int = request.path_params["n"]
        body = self._ledger.find_body(n)
        if body is None:
            return PlainTextResponse(f"The body of request {n} is not here (any more).\n", status_code=404)
        return Response(body, media_type="application/json")


def _model(name: str) -> dict[str, object]:
    return {
        "id": name,
        "type": "model",
        "object": "model",
        "display_name": name,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "script",
    }


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
