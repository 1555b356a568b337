"""The failure matrix: whatever breaks, a built-in tool of Claude Code does not run without a durable intent."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
import pytest

from outlast.adapter import Attempt
from outlast.adapters.claude_code import ClaudeCode
from outlast.gate import Point
from outlast.gateway import Limits
from outlast.records import AttemptOpened, CallStarted, TurnParked
from outlast.testing.adapter_contract.shop import effect_command, release
from outlast.testing.adapter_contract.spoiled import BadHooks, Fault, HookServer, LostMirror, Spoiled
from outlast.testing.adapter_contract.stage import Stage, ended, prompt, says, seen, until
from outlast.testing.faults import Spot
from outlast.testing.models import Step
from tests.acceptance.silent import SilentWorker
from tests.harnesses.claude_code import MODEL, bash, use, write
from tests.harnesses.claude_code import stage_of as staged

pytestmark = [pytest.mark.harness, pytest.mark.timeout(240)]
full = pytest.mark.full

SHELL = {"go": [Step(text="A command.", tools=(bash(effect_command("s", "shell")),)), *says("So be it.")]}
OPEN = msgspec.json.encode(
    {"disableAllHooks": True, "permissions": {"allow": ["Bash", "Write"], "defaultMode": "bypassPermissions"}}
).decode()


def spoil(stage: Stage, server: HookServer) -> None:
    """Send the harness of the next attempts to `server`."""
    stage.agent = replace(
        stage.agent, adapter=Spoiled(stage.agent.adapter, lambda one: BadHooks(one, server))
    )


async def not_run(stage: Stage) -> None:
    """The tool did nothing, and the turn is as sound as if it had been refused."""
    assert stage.effects().all() == []
    await stage.kept()


@full  # more of them are in the contract
@pytest.mark.parametrize("fault", ["empty", "garbage", "cut"])
async def test_a_hook_that_fails_blocks_the_tool(tmp_path: Path, fault: Fault) -> None:
    async with staged(tmp_path, SHELL) as stage:
        spoil(stage, HookServer(fault))
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        await not_run(stage)


@pytest.mark.parametrize("fault", ["500", pytest.param("hang", marks=full)])
async def test_without_a_hello_of_the_hooks_nothing_goes_upstream(tmp_path: Path, fault: Fault) -> None:
    async with staged(tmp_path, SHELL) as stage:
        spoil(stage, HookServer(fault, event="hello"))
        stage.agent = replace(stage.agent, recovery_budget=0)
        turn = await stage.send(prompt("go"))
        async with stage.worker(limits=Limits(hello_s=2.0)):
            await seen(turn, lambda event: event.kind == "turn.parked")
            assert stage.requests() == []
            await turn.cancel()
            assert (await ended(turn)).status == "cancelled"
        (parked,) = await stage.of_kind(TurnParked)
        assert "hello" in msgspec.json.encode(parked.evidence).decode()
        await not_run(stage)


@full
async def test_settings_of_the_user_in_place_of_ours_let_nothing_upstream(tmp_path: Path) -> None:
    async with staged(tmp_path, SHELL) as stage:
        flags = ("--settings", OPEN)
        stage.agent = replace(stage.agent, adapter=ClaudeCode(model=MODEL, flags=flags), recovery_budget=0)
        session = await stage.session(settings={"flags": list(flags)})
        turn = await session.send(prompt("go"))
        async with stage.worker(limits=Limits(hello_s=2.0)):
            # It has neither our hooks nor the token and asks nobody, and no other attempt would.
            outcome = await ended(turn)
        assert outcome.status == "failed"
        assert "no credential" in outcome.error
        assert "--settings" in outcome.error
        assert len(await stage.of_kind(AttemptOpened)) == 1
        assert stage.requests() == []
        await not_run(stage)


DISABLING = {
    "project": write(".claude/settings.local.json", OPEN),
    "user": bash(f"mkdir -p $CLAUDE_CONFIG_DIR && printf '%s' '{OPEN}' > $CLAUDE_CONFIG_DIR/settings.json"),
}


@pytest.mark.parametrize("where", ["project", pytest.param("user", marks=full)])
async def test_hooks_that_a_tool_switches_off_in_a_settings_file_are_asked_all_the_same(
    tmp_path: Path, where: str
) -> None:
    script = {"go": [Step(text="First this.", tools=(DISABLING[where],)), *SHELL["go"]]}
    server = HookServer("500", after=1)
    async with staged(tmp_path, script) as stage:
        spoil(stage, server)
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        assert server.asked.count("before") == 2
        await not_run(stage)


@full
@pytest.mark.parametrize("broken", ['{"disableAllHooks": tr', OPEN], ids=["broken", "open"])
async def test_settings_that_were_there_before_change_nothing(tmp_path: Path, broken: str) -> None:
    async with staged(tmp_path, SHELL) as stage:
        for name in ("settings.json", "settings.local.json"):
            (stage.shop / ".claude").mkdir(exist_ok=True)
            (stage.shop / ".claude" / name).write_text(broken)
        spoil(stage, HookServer("500"))
        assert (await stage.finish(await stage.send(prompt("go")))).status == "done"
        await not_run(stage)


@full
async def test_a_worker_that_never_answers_lets_no_tool_run(tmp_path: Path) -> None:
    async with staged(tmp_path, SHELL) as stage:
        stage.agent = replace(stage.agent, adapter=Spoiled(stage.agent.adapter, SilentWorker))
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await seen(turn, lambda event: event.kind == "call.started")
            with anyio.move_on_after(2.0):
                await ended(turn)
            assert stage.effects().all() == []
            await turn.cancel()
            assert (await ended(turn)).status == "cancelled"
        await not_run(stage)


@full
@pytest.mark.parametrize(
    "spot",
    [
        Spot(Point.AFTER_OUTCOME, "model"),
        Spot(Point.BEFORE_START, "never"),
        Spot(Point.AFTER_START, "never"),
    ],
    ids=["before the tool is asked for", "while it waits in the hook", "before the hook has answered"],
)
async def test_a_tool_whose_worker_dies_before_it_may_begin_has_not_run(tmp_path: Path, spot: Spot) -> None:
    async with staged(tmp_path, SHELL) as stage:
        turn = await stage.send(prompt("go"))
        await stage.killed_at(spot)
        assert stage.effects().all() == []
        assert (await stage.finish(turn)).status == "done"
        started = await stage.of_kind(CallStarted)
        assert stage.effects().count("shell") == (0 if spot.point is Point.AFTER_START else 1)
        assert len(started) == 1
        await stage.kept()


# what no longer fits the log


async def handed_over(stage: Stage) -> None:
    """A worker whose mirror is lost carries a turn into a `never` tool, and no further."""
    agent = stage.agent
    stage.agent = replace(agent, adapter=Spoiled(agent.adapter, LostMirrorTrusted))
    async with stage.worker():
        await until(lambda: stage.effects().count("never") == 1)
    stage.agent = agent
    stage.forget_home()


def LostMirrorTrusted(attempt: Attempt) -> LostMirror:  # noqa: N802
    return LostMirror(attempt)


NEVER = {
    "go": [Step(text="Once.", tools=(use("charge", mark="never", until="released"),)), *says("So be it.")],
    "next": says("And on."),
}


@pytest.mark.harness(turns=2)
async def test_a_resumed_turn_whose_system_prompt_has_changed_is_parked_with_its_evidence(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path, NEVER) as stage:
        turn = await stage.send(prompt("go"))
        await handed_over(stage)
        (stage.shop / "CLAUDE.md").write_text("Everything is different now.")
        async with stage.worker():
            await seen(turn, lambda event: event.kind == "turn.parked")
            assert stage.steps() == [0], "nothing more goes upstream"
            shown = await anyio.to_thread.run_sync(lambda: show(stage))
            assert "diverged" in shown
            await turn.cancel()
            assert (await ended(turn)).status == "cancelled"
            assert str(await ended(await stage.send(prompt("next")))) == "And on."
        (parked,) = await stage.of_kind(TurnParked)
        assert parked.why == "diverged"
        assert "messages" in str(parked.evidence["differs"])
        assert stage.effects().count("never") == 1
        await stage.kept()


def show(stage: Stage) -> str:
    """What `outlast show` prints."""
    argv = [sys.executable, "-m", "outlast.cli", "show", "s", "--world", stage.url]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


@full
async def test_a_turn_whose_transcript_was_lost_is_replayed_from_the_log(tmp_path: Path) -> None:
    async with staged(tmp_path, NEVER) as stage:
        turn = await stage.send(prompt("go"))
        await handed_over(stage)
        release("released")
        assert str(await stage.finish(turn)) == "So be it."
        assert stage.steps() == [0, 1]
        assert stage.effects().count("never") == 1
        await stage.kept()
