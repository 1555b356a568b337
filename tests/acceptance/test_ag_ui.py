"""The npm package `@ag-ui/client` runs agents on our server, cut off and killed at random, as if nothing had been."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.acceptance.test_ai_sdk import CUTS, SEED, STEPS, TURNS, kill_while_streaming, story, without_names
from tests.clients.stage import Stage, run_client, stage


async def run(
    place: Stage, thread: str, prompts: list[str], resume: list[dict[str, Any]] | None = None
) -> Any:
    told = {
        "url": f"{place.address}/v1/ag-ui?agent=teller",
        "token": place.token,
        "thread": thread,
        "prompts": prompts,
        "resume": resume or [],
    }
    return await run_client("agent.mjs", told)


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.xfail(
    strict=False, reason="a client that was cut off at the end of a turn may miss its last messages"
)
@pytest.mark.full
async def test_an_agent_that_is_cut_off_and_whose_workers_are_killed_ends_as_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    prompts = [story(turn, STEPS) for turn in range(1, TURNS + 1)]
    async with stage(tmp_path, seed=SEED) as place:
        undisturbed = await run(place, "calm", prompts)
        place.line.cuts(CUTS, row=-(-CUTS // TURNS), most=(100, 1_000, 8_000))
        disturbed: list[Any] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(place.strike, 1.0)
            disturbed.append(await run(place, "rough", prompts))
            tasks.cancel_scope.cancel()
        assert place.line.left == 0
        assert place.killed
    assert without_names(disturbed[0]["messages"], "rough") == without_names(undisturbed["messages"], "calm")
    assert [outcome["type"] for outcome in disturbed[0]["outcomes"]] == ["success"] * TURNS


@pytest.mark.crash
@pytest.mark.timeout(120)
@pytest.mark.parametrize("cut", [False, True])
async def test_what_a_killed_attempt_had_said_is_taken_back(tmp_path: Path, *, cut: bool) -> None:
    said = " ".join(f"word-{number}" for number in range(80))
    async with stage(tmp_path, seed=SEED) as place, anyio.create_task_group() as tasks:

        async def strikes() -> None:
            await kill_while_streaming(place, "retracted", cut=cut)

        tasks.start_soon(strikes)
        ended = await run(place, "retracted", [json.dumps([{"do": "model", "text": said}])])
        texts = [one["content"].strip() for one in ended["messages"] if one["role"] == "assistant"]
        assert texts == [said]
        assert ended["kinds"]["MESSAGES_SNAPSHOT"] >= 1
        assert place.killed == 1


@pytest.mark.crash
@pytest.mark.timeout(120)
@pytest.mark.parametrize("status", ["resolved", "cancelled"])
async def test_an_interrupt_is_answered_by_the_next_run(tmp_path: Path, status: str) -> None:
    publish = {"do": "tool", "name": "publish", "arguments": {"to": "web"}}
    script = [
        {"do": "model", "text": "I publish it", "tools": [publish]},
        {"do": "model", "text": "that is all"},
    ]
    async with stage(tmp_path, seed=SEED) as place:
        ended = await run(place, "interrupted", [json.dumps(script)], [{"status": status}])
    interrupt, outcome = ended["outcomes"]
    assert interrupt["type"] == "interrupt"
    assert [one["reason"] for one in interrupt["interrupts"]] == ["tool_approval"]
    assert outcome == {"type": "success"}
    assert [one["role"] for one in ended["messages"]] == ["user", "assistant", "tool", "assistant"]
    (result,) = [one["content"] for one in ended["messages"] if one["role"] == "tool"]
    assert (result == "published to web") is (status == "resolved")
    assert ended["state"] == ({"site": {"at": "web"}} if status == "resolved" else {})
