import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from outlast.testing.models import CannotListen, NotReady, Script, ScriptedModels, Step, read_log

SAYS = Script(conversations={"default": (Step(text="hi"),)})
HANGS = Script(conversations={"default": (Step(hang=True),)})
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
TOML = '[[conversations.main]]\ntext = "hi"\n'


async def ask(base_url: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=base_url, timeout=10, trust_env=False, verify=False) as client:
        return await client.post("/v1/messages", json=BODY)


def port_of(base_url: str) -> int:
    return httpx.URL(base_url).port or 0


async def test_the_server_stops_within_a_second_while_clients_wait() -> None:
    async with anyio.create_task_group() as tasks:
        async with ScriptedModels.serve(HANGS) as server:

            async def wait_in_vain() -> None:
                with pytest.raises(httpx.HTTPError):
                    await ask(server.base_url)

            tasks.start_soon(wait_in_vain)
            await server.wait_until(lambda requests: len(requests) == 1)
            began = time.monotonic()
        assert time.monotonic() - began < 1
        assert server.requests[0].outcome == "open"


async def test_a_cancelled_block_still_drops_its_clients_and_frees_its_port() -> None:
    port = 0
    async with anyio.create_task_group() as clients:
        with anyio.CancelScope() as scope:
            async with ScriptedModels.serve(HANGS) as server:
                port = port_of(server.base_url)

                async def wait_in_vain(base_url: str = server.base_url) -> None:
                    with pytest.raises(httpx.HTTPError):
                        await ask(base_url)

                clients.start_soon(wait_in_vain)
                await server.wait_until(lambda requests: len(requests) == 1)
                scope.cancel()
                await anyio.sleep_forever()
    async with ScriptedModels.serve(SAYS, port=port) as server:
        assert (await ask(server.base_url)).status_code == 200


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with ScriptedModels.serve(SAYS):
            raise LookupError("mine")


async def test_a_taken_port_is_a_clear_error() -> None:
    async with ScriptedModels.serve(SAYS) as server:
        port = port_of(server.base_url)
        with pytest.raises(CannotListen, match=str(port)):
            async with ScriptedModels.serve(SAYS, port=port):
                pass


async def test_serving_leaves_signal_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with ScriptedModels.serve(SAYS) as server:
        await ask(server.base_url)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.crash
async def test_a_spawned_server_answers_counts_and_dies_with_its_block(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    async with ScriptedModels.spawn(SAYS, log=log) as models:
        assert (await ask(models.base_url)).json()["content"] == [{"type": "text", "text": "hi"}]
        requests = await models.requests()
        assert json.loads(await models.body(1)) == BODY
    assert [request.outcome for request in requests] == ["completed"]
    assert read_log(log) == requests
    with pytest.raises(ProcessLookupError):
        os.kill(models.pid, 0)


@pytest.mark.crash
async def test_a_spawned_server_ends_when_its_owner_does(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(TOML)
    command = [sys.executable, "-m", "outlast.testing.models", str(path), "--until-eof"]
    async with await anyio.open_process(command) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        ready = json.loads(await process.stdout.receive())
        assert httpx.URL(ready["base_url"]).host == "127.0.0.1"
        await process.stdin.aclose()
        with anyio.fail_after(10):
            assert await process.wait() == 0


@pytest.mark.crash
async def test_the_program_ends_in_order_on_sigterm(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(TOML)
    command = [sys.executable, "-m", "outlast.testing.models", str(path)]
    async with await anyio.open_process(command) as process:
        assert process.stdout is not None
        await process.stdout.receive()
        process.terminate()
        with anyio.fail_after(10):
            assert await process.wait() == 0


@pytest.mark.crash
async def test_a_server_that_cannot_start_says_why(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.toml"
    path.write_text("[[conversations.main]]\ntxt = 1\n")
    with pytest.raises(NotReady, match="ended with 2"):
        async with ScriptedModels.spawn(path):
            pass
    assert "conversations.main[0]" in capfd.readouterr().err
