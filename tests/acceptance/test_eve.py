"""eve, killed in the tools that it runs itself, and the cases of the contract that an agent made with it is held to."""

from pathlib import Path

import anyio
import pytest

from outlast.records import CallOutcome
from outlast.testing.adapter_contract import CASES, Case, Ground, Stage
from outlast.testing.adapter_contract.kill_cases import STREAMS
from outlast.testing.adapter_contract.shop import release
from outlast.testing.adapter_contract.stage import LIMIT_S, prompt, says, until
from outlast.testing.models import Step
from tests.harnesses.eve import SUBJECT

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


async def killed_in_the_batch(stage: Stage) -> None:
    victim = await stage.victim(session="s")
    await until(lambda: {effect.mark for effect in stage.effects().all()} == {"ended", "safe", "never"})
    with anyio.fail_after(LIMIT_S):
        while not any(one.status == "ok" for one in await _ends(stage, "book")):  # noqa: ASYNC110 - the log tells nobody
            await anyio.sleep(0.02)
    victim.kill()
    await victim.death()
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


@pytest.mark.full
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.harness(harness="eve", turns=case.turns), id=case.name)
        for case in CASES
        if case.name not in SUBJECT.lacks
    ],
)
async def test_eve_keeps_the_promise(case: Case, tmp_path: Path) -> None:
    await case.run(Ground(SUBJECT, tmp_path))


def test_what_eve_lacks_is_a_case() -> None:
    assert set(SUBJECT.lacks) <= {case.name for case in CASES}
