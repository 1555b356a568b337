"""Where the server's tests ask: the application over a World in memory, and tokens of two tenants."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from outlast.adapter import Agent
from outlast.adapters.scripted import Scripted
from outlast.clock import Clock, SystemClock
from outlast.links import Links
from outlast.rules import ask
from outlast.server.access import Identity, Scope
from outlast.server.app import build_app
from outlast.server.hub import open_hub
from outlast.server.limits import Limits
from outlast.server.operations import Hook, Operation, Services
from outlast.server.table import OPERATIONS
from outlast.server.tokens import Tokens
from outlast.tool import ToolIO, tool
from outlast.webhook import signed
from outlast.world import World
from tests.unit.engine_desk import Desk, call, say

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MINE, THEIRS = "default", "other"


@tool(replay="never")
async def pay(io: ToolIO, cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents}"


teller = Agent("teller", Scripted(), tools=[pay], rules=[ask("pay", why="it is money")])
PAYS = json.dumps([say("I pay."), call("pay", cents=5), say("It is paid.")])


@dataclass
class Door:
    """The server in this process, and who may ask it."""

    world: World
    services: Services
    tokens: Tokens
    clock: Clock
    http: httpx.AsyncClient
    given: dict[str, str] = field(default_factory=dict[str, str])
    audited: list[tuple[str, str, Mapping[str, Any]]] = field(
        default_factory=list[tuple[str, str, Mapping[str, Any]]]
    )

    def token(self, tenant: str = MINE, scopes: Sequence[Scope] = tuple(Scope)) -> str:
        """A token of this tenant with these scopes."""
        name = f"{tenant}-{'-'.join(scopes)}"
        if name not in self.given:
            self.given[name] = self.tokens.add(name, self.clock, tenant=tenant, scopes=scopes)
        return self.given[name]

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        tenant: str = MINE,
        scopes: Sequence[Scope] = tuple(Scope),
        **settings: Any,
    ) -> httpx.Response:
        """Ask with a token."""
        headers = {"authorization": f"Bearer {self.token(tenant, scopes)}", **settings.pop("headers", {})}
        content = None if body is None else json.dumps(body)
        return await self.http.request(method, path, content=content, headers=headers, **settings)

    async def get(self, path: str, **settings: Any) -> Any:
        """The JSON of an answer that is well."""
        answer = await self.ask("GET", path, **settings)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    async def post(self, path: str, body: object, **settings: Any) -> Any:
        answer = await self.ask("POST", path, body, **settings)
        assert answer.status_code < 300, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    async def work(self, tenant: str = MINE) -> None:
        """Advance whatever is ready."""
        await Desk(self.world.for_tenant(tenant), self.clock).work(teller)

    async def asked(self, session: str = "s") -> Any:
        """A session whose turn waits for a word about a payment. Returns what it waits for."""
        await self.post("/v1/sessions", {"session": session, "agent": "teller"})
        await self.post(f"/v1/sessions/{session}/turns", {"text": PAYS, "id": "p1"})
        await self.work()
        (awaited,) = (await self.get(f"/v1/sessions/{session}/awaited"))["awaits"]
        return awaited


@asynccontextmanager
async def opened_door(
    world: World,
    directory: Path,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    operations: Sequence[Operation] = OPERATIONS,
) -> AsyncGenerator[Door]:
    """The server over `world`."""
    time = clock or SystemClock()
    tokens = Tokens(directory / "tokens.json")
    audited: list[tuple[str, str, Mapping[str, Any]]] = []

    def audit(identity: Identity, what: str, ids: Mapping[str, Any]) -> None:
        audited.append((identity.name, what, ids))

    async def woken(_tenant: str, _session: str) -> None:
        return None

    async with open_hub(world) as hub:
        services = Services(
            world,
            hub,
            time,
            woken,
            audit,
            {"teller": teller},
            data=directory / "data",
            links=Links(b"a key of sixteen bytes, or more"),
            public_url="https://agents.example",
            webhook=Hook(signed(SECRET), MINE),
            doorkeeper=tokens,
        )
        app = build_app(services, tokens, limits=limits, operations=operations, clock=time)
        transport = httpx.ASGITransport(app, client=("192.0.2.7", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            yield Door(world, services, tokens, time, http, audited=audited)


def filled(operation: Operation, **named: str) -> str:
    """The address of an operation, with something for each part of it that differs."""
    parts = {
        "session": "s",
        "turn": "1",
        "call": "1",
        "name": "plan",
        "ref": "x" * 22,
        "input": "p1",
        "link": "l",
        "chat": "s",
    }
    return operation.path.format(**{**parts, **named})
