"""`outlast adopt` with the real Pi: it ran alone, went back once, was killed, and goes on as a session."""

import json
import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from outlast.adapters.pi.results import LOST
from outlast.adapters.pi.versions import installed
from outlast.session import Session
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, ended, prompt, says, staged, until
from outlast.testing.models import Step
from tests.acceptance.adopting import alone, outlast
from tests.harnesses.pi import MODEL, SUBJECT

ADOPT = ("adopt", "pi")
QUIET = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1", "ANTHROPIC_API_KEY": "none"}
BACK = """\
export default (pi) => pi.registerCommand("back", {
  description: "Go back to before the first prompt.",
  handler: async (args, ctx) => {
    const said = ctx.sessionManager.getEntries().find((entry) => entry.message?.role === "user");
    await ctx.navigateTree(said.id, { summarize: false });
  },
});
"""
"""What a user does with `/tree`."""

pytestmark = [pytest.mark.harness(harness="pi", turns=1), pytest.mark.timeout(180)]


class Alone:
    """Pi as a front end of a user's own starts it, without outlast."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: Path, agent: Path) -> None:
        self._process = process
        self._said = said
        self._agent = agent

    def file(self) -> Path:
        (found,) = self._agent.glob("sessions/*/*.jsonl")
        return found

    def say(self, text: str) -> None:
        assert self._process.stdin is not None
        line = json.dumps({"id": text, "type": "prompt", "message": text}).encode() + b"\n"
        self._process.stdin.write(line)
        self._process.stdin.flush()

    async def done(self, text: str) -> None:
        """Say something and wait until nothing is left to do."""
        before = self._said.read_bytes()
        self.say(text)
        last = b'"type":"response"' if text.startswith("/") else b'"type":"agent_settled"'
        await until(lambda: last in self._said.read_bytes()[len(before) :])


@asynccontextmanager
async def at_work(stage: Stage) -> AsyncGenerator[Alone]:
    """Killed at the end with all that it started."""
    agent, said, back = (stage.directory / name for name in ("user/.pi/agent", "said", "back.js"))
    agent.mkdir(parents=True)
    whom = {"providers": {"anthropic": {"baseUrl": stage.models.base_url}}}
    (agent / "models.json").write_text(json.dumps(whom))
    back.write_text(BACK)
    found = installed()
    argv = [str(found.node), str(found.program), "--mode", "rpc", "--provider", "anthropic"]
    with said.open("wb") as output:
        environ = {**os.environ, **QUIET, "NO_PROXY": "127.0.0.1"}
        started = alone(stage, [*argv, "--model", MODEL, "-e", str(back)], environ, output=output)
        async with started as process:
            yield Alone(process, said, agent)


def results(body: bytes) -> Sequence[Any]:
    """The contents of the tool results in a request."""
    messages = msgspec.json.decode(body)["messages"]
    blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


async def test_a_conversation_that_was_killed_goes_on_as_a_session_with_its_call_in_doubt(
    tmp_path: Path,
) -> None:
    script = {
        "wrong": says("This way, then."),
        "go": [
            Step(text="I look.", tools=(SUBJECT.shell("ls"),)),
            Step(text="I pay.", tools=(SUBJECT.shell(effect_command("s", "paid", "; sleep 600")),)),
        ],
        "on": [Step(text="I look again.", tools=(SUBJECT.shell("ls"),)), *says("It was paid once.")],
    }
    async with staged(SUBJECT, tmp_path, script) as stage:
        async with at_work(stage) as pi:
            await pi.done(prompt("wrong", "The wrong way."))
            await pi.done("/back")
            pi.say(prompt("go", "Pay the bill."))
            await until(lambda: stage.effects("s").count("paid") == 1)
            file = pi.file()
            await until(lambda: b"sleep 600" in file.read_bytes())
            refused = outlast(stage, *ADOPT, str(file), status=2)
            assert "may still be open" in refused["message"], "a process goes on with it"
        before = file.read_bytes()
        adopted = outlast(stage, *ADOPT, str(file))
        assert (f"_{adopted['adopted']}.jsonl" in file.name, adopted["unanswered"]) == (True, ["bash"])
        assert adopted["cwd"] == str(stage.shop)
        assert "already" in outlast(stage, *ADOPT, str(file), status=2)["message"], "it is one session"
        session = await Session.find(stage.world, adopted["session"])
        file.rename(tmp_path / "put-away")
        turn = await session.send(prompt("on", "Go on, please."))
        await to_thread.run_sync(outlast, stage, "work", "--once")
        assert str(await ended(turn)) == "It was paid once."
        asked = stage.requests("on")[0]
        body = stage.models.find_body(asked.n) or b""
        assert str(LOST.value) in str(results(body)[-1]), "its last call is in doubt"
        assert len(results(body)) == 2
        assert b"Pay the bill." in body
        assert b"The wrong way." not in body, "it goes on where the user was"
        assert f'"{MODEL}' in body.decode(), "it asks whom it asked"
        assert stage.effects("s").count("paid") == 1
        assert stage.steps("go") == [0, 1], "no finished call was asked for again"
        assert (tmp_path / "put-away").read_bytes() == before, "the user's own file stays as it was"
