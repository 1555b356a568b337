"""Whatever breaks, a tool that the harness runs itself does not run without a durable intent."""

from dataclasses import replace
from typing import Final

import anyio

from outlast.gateway import Limits
from outlast.session import Turn
from outlast.testing.adapter_contract.case import Case, Ground, Run
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.spoiled import BadHooks, Fault, HookServer, Spoiled
from outlast.testing.adapter_contract.stage import ended, prompt, says, seen, until
from outlast.testing.models import Step

HELLO_S: Final = 2.0


def _hook(fault: Fault) -> Run:
    async def run(ground: Ground) -> None:
        command = ground.shell(effect_command("s", "shell"))
        server = HookServer(fault)
        async with ground.staged(
            {"go": [Step(text="A command.", tools=(command,)), *says("So be it.")]}
        ) as stage:
            spoiled = Spoiled(stage.agent.adapter, lambda attempt: BadHooks(attempt, server))
            stage.agent = replace(stage.agent, adapter=spoiled, recovery_budget=0)
            turn = await stage.send(prompt("go"))
            async with stage.worker(limits=Limits(hello_s=HELLO_S)):
                if fault == "hang":
                    await _until_it_asks(server, turn)
                    await turn.cancel()
                else:
                    await seen(turn, lambda event: event.kind in {"turn.settled", "turn.parked"})
                    if (await (await stage.session()).head()).turn_open:
                        await turn.cancel()
                await ended(turn)
            assert stage.effects().all() == [], "the tool has run"
            assert fault == "closed" or "before" in server.asked, "the harness did not ask"
            await stage.kept(lost_answers=1)

    return run


async def _until_it_asks(server: HookServer, turn: Turn) -> None:
    """Return when the harness asks; where it never does, when its turn has ended."""

    async def over() -> None:
        await turn.result()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(over)
        await until(lambda: "before" in server.asked)
        tasks.cancel_scope.cancel()


CASES: Final[tuple[Case, ...]] = (
    Case("a_hook_that_fails_blocks_the_tool", _hook("500"), core=True),
    Case("a_hook_that_is_gone_blocks_the_tool", _hook("closed")),
    Case("a_hook_that_answers_nonsense_blocks_the_tool", _hook("nonsense")),
    Case("a_hook_that_breaks_off_blocks_the_tool", _hook("reset")),
    Case("a_hook_that_hangs_holds_the_tool_back_until_the_turn_is_cancelled", _hook("hang")),
)
