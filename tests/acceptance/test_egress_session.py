"""An agent in its sandbox pushes to a forge whose credential only the worker has."""

import logging
from pathlib import Path

import anyio
import msgspec
import pytest

from outlast import Agent, Session, open_world
from outlast.adapters.python import IO, Loop
from outlast.clock import SystemClock
from outlast.fold import records_of
from outlast.gateway import Open, open_gateway
from outlast.records import NetworkAsked
from outlast.worker import WorkerConfig, open_worker
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.egress import Credential, from_env
from outlast.workspaces.sandbox import sandbox
from tests.egress.forge import open_forge

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120), pytest.mark.anyio]

SECRET = "gLpat-5up3rs3cret-0f-the-f0rge"
HERE = "127.0.0.2"
"""This machine by another address: what programs inside take 127.0.0.1 for is the sandbox itself."""
PUSH = """
set -e
git config --global user.name agent; git config --global user.email agent@sandbox
git clone --quiet {url} site; cd site
echo '<h1>Prices</h1>' > pricing.html; git add --all; git commit --quiet -m 'Add a pricing page'
git push --quiet origin HEAD:main
env; cat .git/config
"""


async def push(io: IO, prompt: str) -> object:
    refused = await io.tool(
        "bash", command="curl -sS http://evil.test/; curl -sS -m 5 http://127.0.0.1:3128/"
    )
    return [await io.tool("bash", command=prompt), refused]


async def test_a_push_from_a_session_succeeds_and_neither_files_nor_log_hold_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    with open_forge(tmp_path, SECRET, address=HERE) as forge, caplog.at_level(logging.INFO, "outlast"):
        repository = forge.make("site.git")
        url = f"http://{HERE}:{forge.port}/site.git"
        workspace = sandbox(
            idle_s=0,
            credentials=[Credential(url, from_env("FORGE_TOKEN"), kind="basic", user="git", name="forge")],
        )
        agent = Agent("pusher", Loop(push), tools=workspace_tools(), workspace=workspace)
        async with (
            open_world(f"sqlite:{tmp_path}/world.db") as world,
            open_gateway(upstream=Open("http://127.0.0.1:9"), clock=SystemClock()) as gateway,
        ):
            session = await Session.open(world, "ticket-1", agent=agent)
            turn = await session.send(PUSH.format(url=url))
            async with open_worker(
                world, {"pusher": agent}, gateway, WorkerConfig(tmp_path / "data")
            ) as worker:
                await worker.work(until_idle=True)
            outcome = await turn.result()
            assert outcome.status == "done", outcome
            said = msgspec.json.encode(outcome.value).decode()
            noted = [
                record
                for commit in await world.commits("ticket-1")
                for record in records_of("ticket-1", commit)
                if isinstance(record, NetworkAsked)
            ]
    log = await anyio.run_process(["git", "-C", repository, "log", "--format=%s", "main"])
    assert log.stdout == b"Add a pricing page\n", said
    assert "evil.test:80 is not allowed in this sandbox" in said
    assert [(one.host, one.port, one.count) for one in noted if one.passed == "refused" and one.host] == [
        ("evil.test", 80, 1)
    ]
    pushed = [one for one in noted if one.passed == "used" and one.path.endswith("/git-receive-pack")]
    assert [(one.credential, one.method, one.status) for one in pushed] == [("forge", "POST", 200)]
    assert "ticket-1: POST 127.0.0.2:" in caplog.text
    assert "with 'forge': 200" in caplog.text
    assert SECRET not in said + caplog.text
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert not kept
