"""eve, killed in a batch of tools that it runs itself: one has ended, one may run again, one may not."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest

from outlast.adapter import Agent
from outlast.adapters.eve import Eve
from outlast.adapters.eve.adapter import TESTED
from outlast.adapters.eve.dialogue import MARK
from outlast.adapters.eve.state import DATA
from outlast.records import AttemptOpened, CallOutcome, TurnParked
from outlast.testing.adapter_contract import Ground, Stage
from outlast.testing.adapter_contract.kill_cases import STREAMS
from outlast.testing.adapter_contract.promises import left_behind
from outlast.testing.adapter_contract.shop import release
from outlast.testing.adapter_contract.stage import LIMIT_S, prompt, says, seen, until
from outlast.testing.models import Step
from outlast.tool import Tool
from tests.harnesses.eve import SUBJECT, EveSubject

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
KILLED = "It was killed, and went on."


def mixed(ground: Ground) -> dict[str, list[Step]]:
    """A batch of which one call has ended when the others are cut off: one may run again, one may not."""
    tools = (
        ground.use("book", mark="ended"),
        ground.use("look", mark="safe", until="go"),
        ground.use("charge", mark="never", until="go"),
    )
    return {"go": [Step(text="All at once.", tools=tools), *says(KILLED)], "next": [*says("And on.")]}


STILL = """
import { createServer } from "node:http";
const server = createServer((request, response) => {
  if (request.method === "POST") response.end('{"sessionId": "wrun_1"}');
  else response.write('{"type": "session.started", "data": {}}\\n');
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
"""
"""A server that takes every prompt and does no more, as eve is after a kill: what it serves is the same."""


class StillEve(EveSubject):
    """An agent whose eve leaves every turn undone."""

    def furnish(self, place: Path) -> None:
        files = {
            "node_modules/eve/package.json": f'{{"version": "{TESTED[0]}", "type": "module"}}',
            "node_modules/eve/bin/eve.js": STILL,
            ".output/server/index.mjs": "",
        }
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, Eve(still_s=0.2), recovery_budget=1)


def left_running(stage: Stage) -> list[str]:
    """What eve's own log, which no later attempt has, says to be `running`."""
    files = (stage.home("s") / DATA / "steps").rglob("*.json")
    steps = [msgspec.json.decode(file.read_bytes()) for file in files]
    return [str(step["stepName"]) for step in steps if step["status"] == "running"]


async def killed_in_the_batch(stage: Stage) -> None:
    victim = await stage.victim(session="s")
    await until(lambda: {effect.mark for effect in stage.effects().all()} == {"ended", "safe", "never"})
    with anyio.fail_after(LIMIT_S):
        while not any(one.status == "ok" for one in await _ends(stage, "book")):  # noqa: ASYNC110 - the log tells nobody
            await anyio.sleep(0.02)
    victim.kill()
    await victim.death()
    assert any(name.endswith("turnStep") for name in left_running(stage)), "eve would leave it so for ever"
    stage.forget_home()


async def _ends(stage: Stage, name: str) -> list[CallOutcome]:
    """How the one call of a tool has ended, if it has."""
    call = await stage.call(name)
    return [one for one in await stage.of_kind(CallOutcome) if one.call == call.call]


async def each_call_is_as_its_policy_says(stage: Stage) -> None:
    effects = stage.effects()
    assert [effects.count(mark) for mark in ("ended", "safe", "never")] == [1, 2, 1]
    ends = [(await _ends(stage, name))[-1].status for name in ("book", "look", "charge")]
    assert ends == ["ok", "ok", "in_doubt"]
    assert stage.steps("go")[0] == 0
    assert stage.steps("go").count(0) == 1, "no finished model call is paid for twice"


@pytest.mark.harness(harness="eve")
async def test_a_worker_killed_in_a_mixed_batch_repeats_only_what_may_be_repeated(tmp_path: Path) -> None:
    ground = Ground(SUBJECT, tmp_path)
    async with ground.staged(mixed(ground)) as stage:
        turn = await stage.send(prompt("go"), id="go")
        await killed_in_the_batch(stage)
        release("go")
        assert str(await stage.finish(turn)) == KILLED
        await each_call_is_as_its_policy_says(stage)
        await stage.kept()


@pytest.mark.crash
async def test_a_turn_that_eve_leaves_undone_is_stuck_and_says_so(tmp_path: Path) -> None:
    async with Ground(StillEve(), tmp_path).staged({"go": says("Never said.")}) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await seen(turn, lambda event: event.kind == "turn.parked")
        (parked,) = await stage.of_kind(TurnParked)
        assert parked.why == "stuck"
        assert "has left the turn undone" in str(parked.evidence)
        assert len(await stage.of_kind(AttemptOpened)) > 1, "it was tried again first"
        assert not await left_behind(stage.home("s"), stage.shop)


@pytest.mark.harness(harness="eve", turns=2)
@pytest.mark.full
async def test_a_worker_killed_in_a_mixed_batch_and_again_goes_on_and_the_next_turn_remembers(
    tmp_path: Path,
) -> None:
    ground = Ground(SUBJECT, tmp_path)
    async with ground.staged(mixed(ground)) as stage:
        turn = await stage.send(prompt("go"), id="go")
        await killed_in_the_batch(stage)
        release("go")
        await stage.killed_at(STREAMS)
        assert str(await stage.finish(turn)) == KILLED
        await each_call_is_as_its_policy_says(stage)
        stage.move()
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        assert KILLED.encode() in stage.last_body()
        assert b"charge never" not in stage.last_body(), "nothing is said to be done that may not be"
        await stage.kept(lost_answers=1)


class UnmarkedEve(EveSubject):
    """An agent whose tools are built in without what says that they ask us."""

    def furnish(self, place: Path) -> None:
        super().furnish(place)
        built = [path for path in (place / ".output").rglob("*.mjs") if MARK in path.read_text()]
        assert built
        for path in built:
            path.write_text(path.read_text().replace(MARK, ""))


@pytest.mark.harness(harness="eve")
async def test_an_agent_whose_tools_would_run_unasked_fails_once_and_is_told_what_to_do(
    tmp_path: Path,
) -> None:
    async with Ground(UnmarkedEve(), tmp_path).staged({"go": says("Never said.")}) as stage:
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            outcome = await turn.result()
        assert outcome.status == "failed"
        assert "would run unasked" in outcome.error
        assert "Wrap them in `durable`" in outcome.error
        assert len(await stage.of_kind(AttemptOpened)) == 1
        assert not stage.steps("go")
