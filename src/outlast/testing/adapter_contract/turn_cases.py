"""Turns that nobody kills: prompts, tools, steers, cancels, a provider that fails."""

from typing import Final

from outlast.testing.adapter_contract.case import Case, Ground, promise
from outlast.testing.adapter_contract.stage import prompt, says


@promise(core=True)
async def a_plain_turn_asks_the_model_once(ground: Ground) -> None:
    async with ground.staged({"go": says("Here I am.")}) as stage:
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert (outcome.status, str(outcome)) == ("done", "Here I am.")
        assert stage.steps() == [0]
        await stage.kept()


CASES: Final[tuple[Case, ...]] = (a_plain_turn_asks_the_model_once,)
