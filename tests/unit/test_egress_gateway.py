"""The way from a sandbox to the worker's gateway lets its own session in, and leads to nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from outlast.sandbox import SESSION_HEADER, session_mark
from outlast.workspaces.egress import Egress, Network, Who, open_egress
from tests.gateway.messages import end, request, says, stream, user
from tests.gateway.stage import RawProvider, Reply, Stage, encoded, stage

HELLO = request(user("hello"))
OWN = Who("default", "s-1")
SOON_S = 5.0


@asynccontextmanager
async def inside(on: Stage, who: Who, directory: Path) -> AsyncGenerator[httpx.AsyncClient]:
    """A client in the sandbox of a session, with the token of the attempt on the stage."""
    async with open_egress(Network(), who, directory / "way", gateway=on.door.base_url) as egress:
        path = socket_of(egress, on)
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=path),
            base_url=on.door.base_url,
            headers={"x-api-key": on.door.token},
            timeout=SOON_S,
        ) as client:
            yield client


def socket_of(egress: Egress, on: Stage) -> str:
    port = int(on.door.base_url.rpartition(":")[2])
    return str(next(way.socket for way in egress.ways if way.port == port))


def provider() -> RawProvider:
    return RawProvider(Reply(stream(says(0, "done"), end())))


async def test_a_harness_inside_asks_its_model(tmp_path: Path) -> None:
    asked = provider()
    async with stage(asked) as on, inside(on, OWN, tmp_path) as client:
        for _ in range(2):
            response = await client.post(on.path, content=encoded(HELLO))
            assert response.status_code == 200
            assert "done" in response.text
    assert SESSION_HEADER not in asked.requests[0].headers


async def test_the_token_of_another_session_opens_nothing_from_inside(tmp_path: Path) -> None:
    asked = provider()
    for who in (Who("default", "s-2"), Who("other", "s-1")):
        async with stage(asked) as on, inside(on, who, tmp_path) as client:
            for claimed in ({}, {SESSION_HEADER: session_mark("default", "s-1")}):
                response = await client.post(on.path, content=encoded(HELLO), headers=claimed)
                assert response.status_code != 200
                assert "opens nothing" in response.text
            hook = await client.post(
                "/outlast/hooks/before",
                json={},
                headers={"authorization": f"Bearer {on.door.token}", "connection": SESSION_HEADER},
            )
            assert "opens nothing" in hook.text or "deny" in hook.text
    assert not asked.requests


async def test_a_model_that_is_asked_from_inside_streams(tmp_path: Path) -> None:
    more = anyio.Event()
    pieces = stream(says(0, "done"), end())
    asked = RawProvider(Reply([*pieces[:2], more, *pieces[2:]]))
    async with (
        stage(asked) as on,
        inside(on, OWN, tmp_path) as client,
        client.stream("POST", on.path, content=encoded(HELLO)) as response,
    ):
        with anyio.fail_after(SOON_S):
            chunks = response.aiter_bytes()
            assert b"message_start" in await anext(chunks)
            more.set()
            rest = b"".join([chunk async for chunk in chunks])
    assert b"message_stop" in rest


async def test_a_harness_that_would_speak_over_a_websocket_is_told_at_once(tmp_path: Path) -> None:
    async with stage(provider()) as on, inside(on, OWN, tmp_path) as client:
        response = await client.get(on.path, headers={"upgrade": "websocket", "connection": "Upgrade"})
        assert response.status_code == 426


async def test_what_the_gateway_cuts_off_is_cut_off_inside(tmp_path: Path) -> None:
    broken = RawProvider(Reply(stream(says(0, "done"), end())[:3], broken=True))
    async with stage(broken) as on, inside(on, OWN, tmp_path) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(on.path, content=encoded(HELLO))


async def test_a_gateway_that_is_gone_is_said(tmp_path: Path) -> None:
    async with open_egress(Network(), OWN, tmp_path / "way", gateway="http://127.0.0.1:1") as egress:
        (way,) = [way for way in egress.ways if way.port == 1]
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(way.socket))) as client:
            response = await client.post("http://127.0.0.1:1/v1/messages", json={})
    assert response.status_code == 502
    assert "gateway is gone" in response.text
