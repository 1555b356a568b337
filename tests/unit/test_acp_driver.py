"""What an ACP agent's turn came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from acp import PROTOCOL_VERSION, schema
from acp.client.connection import ClientSideConnection

from outlast.adapter import Attempt, Door
from outlast.adapters.acp.client import Client
from outlast.adapters.acp.driver import Driver
from outlast.adapters.acp.files import SessionFiles
from outlast.adapters.acp.steps import GatewaySteps

DOOR = Door("http://127.0.0.1:1", "secret", "http://127.0.0.1:1/hooks", "http://127.0.0.1:1/tools")


class Agent:
    """Answers a prompt at once, by itself."""

    async def initialize(self, *_: Any, **__: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, **_: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="only")

    async def prompt(self, *_: Any) -> schema.PromptResponse:
        return schema.PromptResponse(stop_reason="end_turn")


@dataclass
class Files:
    agent_session: str = ""

    async def mirror(self) -> None: ...
    async def note(self, session: str, prompt: str = "") -> None: ...


@dataclass
class Told:
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def all_taken(self) -> None: ...


@pytest.mark.parametrize(("prompt", "status"), [("Refund order 81.", "failed"), ("/help", "done")])
async def test_an_agent_whose_model_calls_go_past_the_gateway_has_done_nothing_that_counts(
    prompt: str, status: str
) -> None:
    calls: Mapping[int, Any] = {}
    turn = SimpleNamespace(calls=calls, turn=1, input="i")
    attempt = SimpleNamespace(
        turn=turn,
        prompt=prompt,
        resumed=False,
        tools={},
        places=SimpleNamespace(cwd="/"),
        state=SimpleNamespace(opened=None),
    )
    told, files = cast("Attempt", attempt), cast("SessionFiles", Files())
    driver = Driver("mine", told, files, through=True, asks=True, environ={})
    ended = await driver._converse(  # pyright: ignore[reportPrivateUsage] - without a process
        cast("ClientSideConnection", Agent()), cast("Client", Told()), GatewaySteps(told), DOOR
    )
    assert ended.status == status
    assert status == "done" or "ModelDoor" in (ended.error or "")
