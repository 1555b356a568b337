"""`outlast adopt` with the real Claude Code: it ran alone, was killed, and goes on as a session."""

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from anyio import to_thread

from outlast.adapters.claude_code.files import LOST
from outlast.adapters.claude_code.results import in_messages
from outlast.adapters.claude_code.versions import installed
from outlast.session import Session
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, ended, prompt, says, until
from outlast.testing.models import Step
from tests.acceptance.adopting import alone, outlast
from tests.harnesses.claude_code import MODEL, bash
from tests.harnesses.claude_code import stage_of as staged

ADOPT = ("adopt", "claude-code")

pytestmark = [pytest.mark.harness(turns=1), pytest.mark.timeout(180)]


@asynccontextmanager
async def at_work(stage: Stage, text: str) -> AsyncGenerator[Path]:
    """Claude Code as a user starts it, without outlast; killed at the end with all that it started.

    Yields where it keeps its transcripts.
    """
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "CLAUDE"))},
        "ANTHROPIC_BASE_URL": stage.models.base_url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    argv = [str(installed().program), "-p", "--model", MODEL, "--allowedTools", "Bash(*)", "--", text]
    async with alone(stage, argv, environ, output=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.close()
        yield Path(environ["HOME"], ".claude", "projects")


async def test_a_conversation_that_was_killed_goes_on_as_a_session_with_its_call_in_doubt(
    tmp_path: Path,
) -> None:
    script = {
        "go": [
            Step(text="I look.", tools=(bash("ls"),)),
            Step(text="I pay.", tools=(bash(effect_command("s", "paid", "; sleep 600")),)),
        ],
        "on": [Step(text="I look again.", tools=(bash("ls"),)), *says("It was paid once.")],
    }
    async with staged(tmp_path, script) as stage:
        async with at_work(stage, prompt("go", "Pay the bill.")) as projects:
            await until(lambda: stage.effects("s").count("paid") == 1)
            await until(lambda: any(b"sleep 600" in file.read_bytes() for file in projects.glob("*/*.jsonl")))
            (transcript,) = projects.glob("*/*.jsonl")
            refused = outlast(stage, *ADOPT, str(transcript), "--model", MODEL, status=2)
            assert "still has the session" in refused["message"], "a process goes on with it"
        before = transcript.read_bytes()
        adopted = outlast(stage, *ADOPT, str(transcript), "--model", MODEL)
        assert (adopted["adopted"], adopted["unanswered"]) == (transcript.stem, ["Bash"])
        assert adopted["cwd"] == str(stage.shop)
        assert "already" in outlast(stage, *ADOPT, str(transcript), status=2)["message"], "it is one session"
        session = await Session.find(stage.world, adopted["session"])
        transcript.rename(tmp_path / "put-away")
        turn = await session.send(prompt("on", "Go on, please."))
        await to_thread.run_sync(outlast, stage, "work", "--once")
        assert str(await ended(turn)) == "It was paid once."
        body = stage.models.find_body(stage.requests("on")[0].n) or b""
        told = in_messages(msgspec.json.decode(body)["messages"])
        assert [one.content for one in told.values()][1:] == [LOST.content], "its last call is in doubt"
        assert b"Pay the bill." in body
        assert b"I look." in body
        assert stage.effects("s").count("paid") == 1
        assert stage.steps("go") == [0, 1], "no finished call was asked for again"
        assert (tmp_path / "put-away").read_bytes() == before, "the user's own file stays as it was"
