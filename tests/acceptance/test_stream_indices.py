"""Every chunk of a turn has an index, the same from any server: whoever has n of them gets the exact rest."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.test_ai_sdk import SEED, story
from tests.clients.stage import Stage, stage

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def frames(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Id and chunk of each frame; what ends the stream is none."""
    found: list[tuple[int, dict[str, Any]]] = []
    for frame in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
        if lines.get("data", "[DONE]") != "[DONE]":
            found.append((int(lines["id"]), json.loads(lines["data"])))
    return found


async def said(api: httpx.AsyncClient, name: str) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
    """Chat, and return the run's id and all its frames."""
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": story(1, 2)}]}
    body = {"id": name, "agent": "teller", "messages": [message]}
    answer = await api.post("/v1/chat", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    return answer.headers["x-workflow-run-id"], frames(answer.text)


def clients(place: Stage) -> list[httpx.AsyncClient]:
    """One for each server: what one has told, the other goes on with."""
    headers = {"authorization": f"Bearer {place.token}"}
    return [
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False)
        for port in place.line.ports
    ]


async def test_any_server_gives_the_exact_rest(tmp_path: Path) -> None:
    async with stage(tmp_path, seed=SEED) as place:
        one, other = clients(place)
        async with one, other:
            run, whole = await said(one, "Indexed-1")
            assert [index for index, _ in whole] == list(range(len(whole)))
            path, last = f"/v1/chat/{run}/stream", len(whole)
            for begin in (0, 1, last // 2, last - 1):
                for api in (one, other):
                    assert frames((await api.get(path, params={"startIndex": begin})).text) == whole[begin:]
            came_back = await other.get(path, headers={"last-event-id": str(last // 2)})
            assert frames(came_back.text) == whole[last // 2 + 1 :]
            assert frames((await other.get("/v1/chat/Indexed-1/stream")).text) == whole, "it ended just now"
            assert (await other.get(path, params={"startIndex": last})).status_code == 204
            gone = await other.get(path, params={"startIndex": last + 1})
            assert gone.status_code == 410, "it counts what is not there"
            assert (await one.post("/v1/chat", json={"id": "x", "messages": []})).status_code == 400
            assert (await one.get("/v1/chat/nobody/stream")).status_code == 204
            again, repeated = await said(other, "Indexed-1")
            assert (again, repeated) == (run, whole), "the same message is the same turn"


async def test_from_the_end_it_begins_with_a_step_and_says_where_that_is(tmp_path: Path) -> None:
    async with stage(tmp_path, seed=SEED) as place:
        one, other = clients(place)
        async with one, other:
            run, whole = await said(one, "indexed-2")
            for back in (1, 5, len(whole) // 2, len(whole) + 7):
                answer = await other.get(f"/v1/chat/{run}/stream", params={"startIndex": -back})
                told = frames(answer.text)
                tail = int(answer.headers["x-workflow-stream-tail-index"])
                begin = max(0, tail + 1 - back)  # as clients reckon
                assert told == whole[begin:]
                assert begin <= max(0, len(whole) - back)
                assert begin == 0 or told[0][1]["type"] == "start-step"
