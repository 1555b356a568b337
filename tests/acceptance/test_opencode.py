"""What is OpenCode's alone: its third gate, midnight in its prompt, the packages that it would install."""

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import msgspec
import pytest

from outlast.adapter import Agent, Door
from outlast.adapters.opencode import OpenCode
from outlast.adapters.opencode.client import client_of
from outlast.adapters.opencode.launch import Launch, argv, environment, lay_out, model_name
from outlast.adapters.opencode.permissions import NOT_STARTED
from outlast.adapters.opencode.table import table_of
from outlast.adapters.opencode.versions import installed
from outlast.gate import Point
from outlast.testing.adapter_contract.case import Ground
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.spoiled import BadHooks, HookServer, Spoiled
from outlast.testing.adapter_contract.stage import prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step
from outlast.tool import Tool
from tests.harnesses.opencode import MODEL, SUBJECT, OpenCodeSubject

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.harness(harness="opencode"),
    pytest.mark.full,
    pytest.mark.timeout(240),
]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: "


class YesServer(HookServer):
    """Lets every tool begin and asks nobody: what a broken hook could do at worst."""

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hooks_url: str
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        event = head.split(" ")[1].rsplit("/", 1)[-1]
        lines = (line.partition(":") for line in head.split("\r\n")[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in lines}
        body = await reader.readexactly(int(headers["content-length"]))
        self.asked.append(event)
        said = msgspec.json.encode({"allow": True, "call": msgspec.json.decode(body).get("callID", "")})
        if event != "before":
            told = {"authorization": headers["authorization"]}
            async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
                said = (await client.post(f"{hooks_url}/{event}", content=body, headers=told)).content
        writer.write(_HEAD + f"{len(said)}\r\n\r\n".encode() + said)
        await writer.drain()


class DenyingSubject(OpenCodeSubject):
    """OpenCode whose user lets it run no command but one."""

    recipe = "tests.acceptance.test_opencode:DENYING"

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        rules = {"bash": {"*": "deny", "ls": "allow"}}
        return Agent(self.name, OpenCode(model=MODEL, config={"permission": rules}), tools=tools)


DENYING = DenyingSubject()


async def test_a_tool_that_only_the_hook_let_through_is_refused_by_the_third_gate(tmp_path: Path) -> None:
    command = SUBJECT.shell(effect_command("s", "shell"))
    script = {"go": [Step(text="A command.", tools=(command,)), *says("So be it.")]}
    async with Ground(SUBJECT, tmp_path).staged(script) as stage:
        server = YesServer("500")
        spoiled = Spoiled(stage.agent.adapter, lambda attempt: BadHooks(attempt, server))
        stage.agent = replace(stage.agent, adapter=spoiled)
        assert str(await stage.finish(await stage.send(prompt("go")))) == "So be it."
        assert "before" in server.asked
        assert stage.effects().all() == [], "the tool has run"
        last = stage.models.find_body(stage.requests()[-1].n) or b""
        assert NOT_STARTED.encode() in last, "the model is told why"
        (installed,) = stage.home("s").glob(".outlast-opencode/*/config/opencode/node_modules")
        assert list(installed.iterdir()) == [], "no package was installed"


async def test_midnight_in_the_middle_of_a_turn_changes_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = {
        "go": [
            Step(text="I act.", tools=(SUBJECT.application("charge", mark="a"),)),
            Step(text="I look.", tools=(SUBJECT.application("look", mark="b"),)),
            *says("The end."),
        ]
    }
    # Half a day away, where it is another date: behind by twelve hours in the morning, ahead by fourteen after that.
    elsewhere = "Etc/GMT+12" if time.gmtime().tm_hour < 12 else "Pacific/Kiritimati"
    async with Ground(SUBJECT, tmp_path).staged(script) as stage:
        monkeypatch.setenv("TZ", "UTC")
        turn = await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.BEFORE_INTENT, "model", 2))
        monkeypatch.setenv("TZ", elsewhere)
        assert str(await stage.finish(turn)) == "The end."
        assert stage.steps() == [0, 1, 2]
        await stage.kept(lost_answers=1)


async def test_a_call_that_a_rule_of_the_user_refused_is_not_in_doubt_after_a_kill(tmp_path: Path) -> None:
    # The other call holds on until the refusal has been told.
    charge = SUBJECT.application("charge", mark="never", hold_s=5.0)
    asked = (SUBJECT.shell(effect_command("s", "shell")), charge)
    script = {"go": [Step(text="I act.", tools=asked), *says("So be it.")]}
    async with Ground(DENYING, tmp_path).staged(script) as stage:
        turn = await stage.send(prompt("go"), id="go")
        await stage.killed_at(Spot(Point.AFTER_EFFECT, "never"))
        assert str(await stage.finish(turn)) == "So be it."
        evidence = await stage.evidence()
        ends = {intent.name: evidence.outcomes()[intent.call].status for intent in evidence.intents("tool")}
        assert ends == {"bash": "error", "charge": "in_doubt"}
        assert [effect.mark for effect in stage.effects().all()] == ["never"]
        assert b"a rule which prevents" in stage.last_body(), "the model is told why"
        await stage.kept()


async def test_it_knows_the_same_of_its_models_as_from_its_whole_table(tmp_path: Path) -> None:
    program = installed()
    table = table_of(program.program, "anthropic")
    assert table is not None, "the program no longer shows its table: starts take half as long again"
    known = [
        await _models_known(tmp_path / name, table if name == "own" else None) for name in ("own", "all")
    ]
    assert MODEL.encode() in known[0]
    assert known[0] == known[1]


async def _models_known(home: Path, table: str | None) -> bytes:
    """What OpenCode says of the providers that are switched on."""
    home.mkdir()
    program = installed()
    nobody = Door("http://127.0.0.1:9", "token", "http://127.0.0.1:9/hooks", "http://127.0.0.1:9/tools")
    launch = Launch(
        program.program, program.version, "n", home, nobody, "word", model_name(MODEL), table=table
    )
    lay_out(launch)
    process = subprocess.Popen(  # noqa: ASYNC220 - its first line is waited for in a thread
        argv(launch),
        env=environment(launch, os.environ),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        lines = process.stdout
        said = await anyio.to_thread.run_sync(lambda: next(line for line in lines if b"listening" in line))
        found = re.search(r"http://\S+", said.decode())
        assert found is not None
        async with client_of(found[0], "word") as http:
            return (await http.get("/config/providers")).raise_for_status().content
    finally:
        process.kill()
        process.communicate()
