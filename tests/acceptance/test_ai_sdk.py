"""The npm package `ai` chats with our server, cut off and killed at random, and ends as if nothing had been."""

import json
import os
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from outlast.errors import SessionUnknown
from outlast.fold import records_of
from outlast.records import AttemptOpened
from outlast.session import Session
from outlast.world import World
from tests.clients.stage import Stage, run_client, stage

SEED = int(os.environ.get("OUTLAST_TEST_SEED", "1"))
CUTS = int(os.environ.get("OUTLAST_TEST_CUTS", "20"))
"""How often a client is cut off; 200 takes each of them some minutes."""
TURNS, STEPS = (3, 4) if CUTS <= 20 else (10, 8)
TRIED = [
    # What is cut, and what our server says after it, is the same for every client: one of them stands for all.
    pytest.param("default", id="default"),
    pytest.param("workflow", id="workflow", marks=pytest.mark.full),
]


def story(turn: int, steps: int = 4) -> str:
    """A prompt that is a script: the model says much, looks at things, and says more."""
    said = [
        {
            "do": "model",
            "text": " ".join(f"t{turn}.{step}.{word}" for word in range(40)),
            "tools": [
                {"do": "tool", "name": "look", "arguments": {"at": f"{turn}.{step}.{one}"}}
                for one in range(2)
            ],
        }
        for step in range(steps)
    ]
    return json.dumps([*said, {"do": "model", "text": f"that was turn {turn}"}])


def without_names(messages: list[dict[str, Any]], chat: str) -> Any:
    """Messages as those of another chat would be."""
    return json.loads(json.dumps(messages).replace(chat, "CHAT"))


async def chat(place: Stage, name: str, transport: str, prompts: list[str]) -> Any:
    return (await chatted(place, name, transport, prompts))["messages"]


async def chatted(place: Stage, name: str, transport: str, prompts: list[str], **more: object) -> Any:
    told = {
        "api": f"{place.address}/v1/chat",
        "token": place.token,
        "chat": name,
        "agent": "teller",
        "transport": transport,
        "prompts": prompts,
        **more,
    }
    said = await run_client("chat.mjs", told)
    return {**said, "messages": without_names(said["messages"], name)}


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("transport", TRIED)
async def test_a_chat_that_is_cut_off_and_whose_workers_are_killed_ends_as_an_undisturbed_one(
    tmp_path: Path, transport: str
) -> None:
    prompts = [story(turn, STEPS) for turn in range(1, TURNS + 1)]
    async with stage(tmp_path, seed=SEED) as place:
        undisturbed = await chat(place, "calm", transport, prompts)
        # One transport is told a turn from its beginning each time, and the other goes on where it was.
        most = (100, 1_000, 8_000) if transport == "default" else (100, 400, 1_500)
        place.line.cuts(CUTS, row=-(-CUTS // TURNS), most=most)
        disturbed: list[Any] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(place.strike, 1.0)
            disturbed.append(await chat(place, "rough", transport, prompts))
            tasks.cancel_scope.cancel()
        assert disturbed == [undisturbed]
        assert place.line.left == 0
        assert place.killed


async def kill_while_streaming(place: Stage, name: str, *, cut: bool) -> None:
    """Kill who tells the story when some of it was shown, and cut off who hears it at the same moment."""
    session = await appears(place.world, name)
    async with aclosing(session.follow()) as shown:
        async for event in shown:
            if event.kind == "call.text" and event.offset > 100:
                break
    head = await session.head()
    assert head.worker is not None
    if cut:
        place.line.drop()
    await place.kill(head.worker)


async def appears(world: World, name: str) -> Session:
    while True:
        try:
            return await Session.find(world, name)
        except SessionUnknown:
            await anyio.lowlevel.checkpoint()


def texts(messages: Any) -> list[str]:
    """What the assistant says, part by part."""
    return [
        part["text"]
        for message in messages
        if message["role"] == "assistant"
        for part in message["parts"]
        if part["type"] == "text"
    ]


@pytest.mark.crash
@pytest.mark.timeout(120)
@pytest.mark.parametrize("transport", ["default", "workflow"])
async def test_no_text_is_repeated_after_a_kill_while_it_streams(tmp_path: Path, transport: str) -> None:
    """A public bug of others: what the dead attempt had shown stands before what the next one shows."""
    said = " ".join(f"word-{number}" for number in range(80))
    async with stage(tmp_path, seed=SEED) as place, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(kill_while_streaming, place, "repeated", cut=False))
        messages = await chat(place, "repeated", transport, [json.dumps([{"do": "model", "text": said}])])
        assert [text.strip() for text in texts(messages)] == [said]
        assert await attempts(place.world, "repeated") == 2


@pytest.mark.crash
@pytest.mark.timeout(120)
@pytest.mark.parametrize("transport", ["default", "workflow"])
async def test_no_stale_prefix_is_kept_after_a_kill_while_it_streams(tmp_path: Path, transport: str) -> None:
    """A public bug of others: a client that was away when the retry began keeps the text that is void."""
    said = " ".join(f"word-{number}" for number in range(80))
    async with stage(tmp_path, seed=SEED) as place, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(kill_while_streaming, place, "stale", cut=True))
        messages = await chat(place, "stale", transport, [json.dumps([{"do": "model", "text": said}])])
        assert [text.strip() for text in texts(messages)] == [said]
        assert await attempts(place.world, "stale") == 2


async def attempts(world: World, session: str) -> int:
    log = [one for commit in await world.commits(session) for one in records_of(session, commit)]
    return sum(isinstance(record, AttemptOpened) for record in log)


@pytest.mark.crash
@pytest.mark.timeout(120)
@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("transport", ["default", pytest.param("workflow", marks=pytest.mark.full)])
async def test_a_call_that_is_asked_about_is_approved_in_the_chat(
    tmp_path: Path, transport: str, *, approve: bool
) -> None:
    publish = {"do": "tool", "name": "publish", "arguments": {"to": "web"}}
    script = [
        {"do": "model", "text": "I publish it", "tools": [publish]},
        {"do": "model", "text": "that is all"},
    ]
    async with stage(tmp_path, seed=SEED) as place:
        told = await chatted(place, "asked", transport, [json.dumps(script)], approve=approve)
    _, answer = told["messages"]
    (call,) = [part for part in answer["parts"] if part["type"] == "dynamic-tool"]
    documents = [part["data"]["value"] for part in answer["parts"] if part["type"] == "data-document"]
    assert documents == ([{"at": "web"}] if approve else [])
    assert told["waited"] == ["waiting"]
    assert answer["metadata"]["status"] == "done"
    assert call["approval"]["approved"] is approve
    assert (call["state"], call.get("output")) == (
        ("output-available", "published to web") if approve else ("output-denied", None)
    )
    assert [text.strip() for text in texts(told["messages"])] == ["I publish it", "that is all"]


@pytest.mark.crash
@pytest.mark.timeout(120)
async def test_a_question_of_the_agent_is_answered_in_the_chat(tmp_path: Path) -> None:
    async with stage(tmp_path, seed=SEED) as place:
        told = await chatted(place, "question", "default", ["choose"], agent="chooser", answer="red")
    assert told["waited"] == ["waiting"]
    assert texts(told["messages"]) == ["It is red."]
