"""Other programs send prompts and signals: signed, once, or not at all."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.errors import BadInput, WorldUnavailable
from outlast.session import Session
from outlast.signing import sign
from outlast.webhook import BODY_BYTES, signed, webhook_route
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk

SECRET = "between us"


async def wait_for_ci(io: IO, prompt: str) -> object:
    return await io.wait_for("ci") if prompt == "wait" else prompt


AGENT = Agent("tester", Loop(wait_for_ci))


class Bell:
    """A waker."""

    def __init__(self) -> None:
        self.rung: list[tuple[str, str]] = []

    async def wake(self, tenant: str, session: str) -> None:
        self.rung.append((tenant, session))


class Sender:
    """Another program."""

    def __init__(self, client: httpx.AsyncClient, clock: ManualClock) -> None:
        self.client = client
        self.clock = clock

    async def post(self, delivery: str, value: object, secret: str = SECRET) -> httpx.Response:
        body = json.dumps(value).encode()
        return await self.client.post(
            "/outlast/input", content=body, headers=sign(secret, delivery, body, self.clock.now())
        )


@asynccontextmanager
async def sending(store: MemoryStore, clock: ManualClock, bell: Bell) -> AsyncGenerator[Sender]:
    route = webhook_route(signed(SECRET), world=lambda: open_memory(store), waker=bell, clock=clock)
    transport = httpx.ASGITransport(Starlette(routes=[route]))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        yield Sender(client, clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
async def world(store: MemoryStore) -> AsyncGenerator[World]:
    async with open_memory(store) as opened:
        yield opened


@pytest.fixture
async def sender(store: MemoryStore, clock: ManualClock, bell: Bell) -> AsyncGenerator[Sender]:
    async with sending(store, clock, bell) as found:
        yield found


async def test_a_delivery_is_a_signal_or_a_prompt_and_the_same_again_is_the_same(
    world: World, sender: Sender, bell: Bell
) -> None:
    session = await Session.open(world, "s-1", agent=AGENT)
    await session.send("wait")
    signal = {"session": "s-1", "signal": "ci", "value": {"green": True}}
    prompt = {"session": "s-1", "prompt": "and now?"}
    for _ in range(3):
        answer = await sender.post("d-1", signal)
        assert (answer.status_code, answer.json()) == (202, {"input": "hook-d-1"})
        assert (await sender.post("d-2", prompt)).status_code == 202
    await Desk(world).work(AGENT)
    assert (await session.result(1)).value == {"green": True}
    assert (await session.result(2)).value == "and now?"
    state = await session.state()
    assert (state.next_turn, state.signals) == (3, [])
    assert set(bell.rung) == {("default", "s-1")}


async def test_what_is_not_signed_changes_nothing_and_learns_nothing(
    world: World, sender: Sender, clock: ManualClock, bell: Bell
) -> None:
    await Session.open(world, "s-1", agent=AGENT)
    body = json.dumps({"session": "s-1", "prompt": "x"}).encode()
    headers = dict(sign(SECRET, "d-1", body, clock.now()))
    old = dict(sign(SECRET, "d-1", body, clock.now() - 400))
    for wrong in ({}, {**headers, "webhook-id": "d-2"}, {**headers, "webhook-signature": "v1,x"}, old):
        answer = await sender.client.post("/outlast/input", content=body, headers=wrong)
        assert answer.status_code == 401
    assert (await sender.post("d-1", {"session": "s-1", "prompt": "x"}, "another")).status_code == 401
    assert (await sender.post("d-1", {"session": "none", "prompt": "x"}, "another")).status_code == 401
    assert not await world.inputs("s-1")
    assert not bell.rung


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"session": "none", "prompt": "x"}, 404),
        ({"session": "NO ID", "prompt": "x"}, 400),
        ({"session": "s-1"}, 400),
        ({"session": "s-1", "prompt": "x", "signal": "y"}, 400),
        ({"session": "s-1", "prompt": "x", "tenant": "another"}, 400),
        ({"prompt": "x"}, 400),
        ([], 400),
        ({"session": "s-1", "prompt": "x" * BODY_BYTES}, 413),
    ],
)
async def test_what_is_no_delivery_is_refused(
    world: World, sender: Sender, value: object, status: int
) -> None:
    await Session.open(world, "s-1", agent=AGENT)
    assert (await sender.post("d-1", value)).status_code == status
    assert not await world.inputs("s-1")


async def test_an_id_stands_for_one_content(world: World, sender: Sender) -> None:
    await Session.open(world, "s-1", agent=AGENT)
    assert (await sender.post("d-1", {"session": "s-1", "prompt": "x"})).status_code == 202
    assert (await sender.post("d-1", {"session": "s-1", "prompt": "y"})).status_code == 409


async def test_a_route_reaches_one_tenant(store: MemoryStore, clock: ManualClock) -> None:
    async with open_memory(store) as world, sending(store, clock, Bell()) as sender:
        await Session.open(world.for_tenant("another"), "s-2", agent=AGENT)
        assert (await sender.post("d-1", {"session": "s-2", "prompt": "x"})).status_code == 404


async def test_a_world_that_is_away_makes_the_sender_try_again(clock: ManualClock) -> None:
    def away() -> None:
        raise WorldUnavailable(world="memory", reason="it is away")

    route = webhook_route(signed(SECRET), world=away, clock=clock)  # pyright: ignore[reportArgumentType] - it fails
    transport = httpx.ASGITransport(Starlette(routes=[route]))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answer = await Sender(client, clock).post("d-1", {"session": "s-1", "prompt": "x"})
    assert answer.status_code == 503


def test_a_route_needs_a_secret() -> None:
    with pytest.raises(BadInput):
        signed("")
