"""`outlast adopt` with the real Codex: it ran alone, was killed, and goes on as a session."""

import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from anyio import to_thread

from outlast.adapters.codex import Codex
from outlast.adapters.codex.results import in_items
from outlast.adapters.codex.versions import installed
from outlast.adapters.program import LOST
from outlast.errors import BadInput
from outlast.records import AttemptOpened
from outlast.session import Session
from outlast.testing.adapter_contract import staged
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, ended, prompt, says, until
from outlast.testing.models import Step, ToolUse, Usage
from outlast.workspaces.local import local
from tests.acceptance import adopting
from tests.acceptance.terminals import LIMIT_S
from tests.harnesses.codex import LIMIT, MODEL, SUBJECT

ADOPT: Final = ("adopt", "codex")

pytestmark = [pytest.mark.harness(harness="codex", turns=1), pytest.mark.full, pytest.mark.timeout(180)]


def held(mark: str) -> ToolUse:
    """A command that acts and does not end; Codex answers for it after half a minute at the latest."""
    command = effect_command("s", mark, "; sleep 600")
    return ToolUse(name="exec_command", input={"cmd": command, "yield_time_ms": 30_000})


def command(stage: Stage, *words: str) -> tuple[Sequence[str], dict[str, str]]:
    """How a user starts Codex, and with what environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CODEX", "OPENAI"))}
    provider = f'{{name="own",base_url="{stage.models.base_url}/v1",wire_api="responses",env_key="OWN_KEY"}}'
    told = ["-c", f"model_providers.own={provider}", "-c", 'model_provider="own"', "-m", MODEL]
    free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return [str(installed().program), "exec", *told, *free, *words], {**kept, "OWN_KEY": "none"}


def by_itself(stage: Stage, *words: str) -> None:
    """A turn of Codex alone, to its end."""
    argv, environ = command(stage, *words)
    subprocess.run(
        argv,
        env=environ,
        cwd=stage.shop,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )


@asynccontextmanager
async def alone(stage: Stage, *words: str) -> AsyncGenerator[int]:
    """Codex as a user starts it, killed at the end. Yields its number."""
    argv, environ = command(stage, *words)
    async with adopting.alone(stage, argv, environ, output=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.close()
        yield process.pid


def rollouts() -> list[Path]:
    """What Codex has written, newest last."""
    return sorted(Path(os.environ["HOME"], ".codex", "sessions").rglob("rollout-*.jsonl"))


def outlast(stage: Stage, *words: str, status: int = 0) -> dict[str, Any]:
    """The last line that a command answers."""
    url = f"{stage.models.base_url}/v1"
    return adopting.outlast(stage, *words, status=status, OPENAI_BASE_URL=url, OPENAI_API_KEY="none")


def told_of(stage: Stage, conversation: str, number: int = 0) -> dict[str, object]:
    """The outputs that a request brings."""
    body = stage.models.find_body(stage.requests(conversation)[number].n) or b""
    return in_items(msgspec.json.decode(body)["input"])


async def go_on(stage: Stage, adopted: dict[str, Any], conversation: str) -> str:
    """Another turn of the session, by `outlast work`."""
    session = await Session.find(stage.world, adopted["session"])
    turn = await session.send(prompt(conversation, "Go on, please."))
    await to_thread.run_sync(outlast, stage, "work", "--once")
    return str(await ended(turn))


async def test_a_conversation_that_was_killed_goes_on_as_a_session_with_its_call_in_doubt(
    tmp_path: Path,
) -> None:
    script = {
        "go": [
            Step(text="I look.", tools=(SUBJECT.shell("ls"),)),
            Step(text="I pay.", tools=(held("paid"),)),
        ],
        "on": [Step(text="I look again.", tools=(SUBJECT.shell("ls"),)), *says("It was paid once.")],
    }
    async with staged(SUBJECT, tmp_path, script) as stage:
        async with alone(stage, prompt("go", "Pay the bill.")) as pid:
            await until(lambda: stage.effects("s").count("paid") == 1)
            await until(lambda: b"sleep 600" in rollouts()[-1].read_bytes())
            (rollout,) = rollouts()
            with pytest.raises(BadInput, match=rf"still has the session .* open \(process {pid}\)"):
                Codex().adopt(rollout, tmp_path)
        before = rollout.read_bytes()
        adopted = outlast(stage, *ADOPT, str(rollout), "--model", MODEL)
        assert rollout.stem.endswith(adopted["adopted"])
        assert (adopted["cwd"], adopted["unanswered"]) == (str(stage.shop), ["exec_command"])
        assert "already" in outlast(stage, *ADOPT, str(rollout), status=2)["message"], "it is one session"
        rollout.rename(tmp_path / "put-away")
        assert await go_on(stage, adopted, "on") == "It was paid once."
        assert list(told_of(stage, "on").values())[1:] == [LOST], "its last call is in doubt"
        body = stage.models.find_body(stage.requests("on")[0].n) or b""
        assert b"Pay the bill." in body
        assert b"I look." in body
        first = msgspec.json.decode(stage.models.find_body(stage.requests("go")[0].n) or b"")
        then = msgspec.json.decode(body)
        assert then["prompt_cache_key"] == first["prompt_cache_key"], "what the provider has cached is of use"
        assert then["input"][: len(first["input"])] == first["input"]
        assert stage.effects("s").count("paid") == 1
        assert stage.steps("go") == [0, 1], "no finished call was asked for again"
        assert (tmp_path / "put-away").read_bytes() == before, "the user's own file stays as it was"


async def test_a_fork_goes_on_with_what_it_was_forked_from(tmp_path: Path) -> None:
    script = {
        "go": says("I know the number: 81."),
        "fork": [Step(text="I look.", tools=(held("seen"),))],
        "on": says("We spoke of 81."),
    }
    async with staged(SUBJECT, tmp_path, script) as stage:
        await to_thread.run_sync(by_itself, stage, prompt("go", "What is the number?"))
        (first,) = rollouts()
        async with alone(stage, "fork", first.stem[-36:], prompt("fork", "Look again.")):
            await until(lambda: stage.effects("s").count("seen") == 1)
            await until(lambda: b"sleep 600" in rollouts()[-1].read_bytes())
        (fork,) = [one for one in rollouts() if one != first]
        away = first.rename(tmp_path / "away")
        with pytest.raises(BadInput, match=f"goes on from the session {first.stem[-36:]}, which is not here"):
            Codex().adopt(fork, tmp_path)
        away.rename(first)
        adopted = outlast(stage, *ADOPT, str(fork), "--model", MODEL)
        assert adopted["adopted"] == fork.stem[-36:]
        assert await go_on(stage, adopted, "on") == "We spoke of 81."
        body = stage.models.find_body(stage.requests("on")[0].n) or b""
        assert b"I know the number: 81." in body, "what it was forked from"
        assert b"Look again." in body
        assert list(told_of(stage, "on").values()) == [LOST]


async def test_a_conversation_that_goes_on_with_a_compaction_tells_it_of_its_call_in_doubt(
    tmp_path: Path,
) -> None:
    script = {
        "go": [
            Step(text="I look.", tools=(SUBJECT.shell("ls"),), usage=Usage(input_tokens=2 * LIMIT)),
            Step(text="I pay.", tools=(held("paid"),)),
            Step(text="A bill is being paid."),
        ],
        "on": says("It was paid once."),
    }
    async with staged(SUBJECT, tmp_path, script) as stage:
        async with alone(stage, prompt("go", "Pay the bill.")):
            await until(lambda: stage.effects("s").count("paid") == 1)
            await until(lambda: b"sleep 600" in rollouts()[-1].read_bytes())
        codex = Codex(model=MODEL, config={"model_auto_compact_token_limit": LIMIT})
        adopted = codex.adopt(rollouts()[-1], stage.home("s"))
        stage.agent = replace(stage.agent, adapter=codex)
        session = await Session.open(
            stage.world,
            "s",
            agent=stage.agent,
            workspace=local(stage.shop),
            home=stage.home("s"),
            settings=adopted.settings,
            files=adopted.files,
        )
        turn = await session.send(prompt("on", "Go on, please."))
        assert str(await stage.finish(turn)) == "It was paid once."
        assert (stage.steps("go"), stage.steps("on")) == ([0, 1, 2], [0])
        assert list(told_of(stage, "go", 2).values())[1:] == [LOST], "the summary is made from it"
        assert b"A bill is being paid." in stage.last_body()
        assert len(await stage.of_kind(AttemptOpened)) == 1, "the gateway knows of the call"
