"""What comes of prompts that are typed at a terminal, and of the program there."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest

from outlast.adapter import Adapter, Attempt, Dialogue, Processes, TurnResult
from outlast.adapters.at_terminal import NOT_OPENED, AtTerminal
from outlast.cli.run import left
from outlast.cli.wrapped import run_at_terminal, take_back
from outlast.clock import SystemClock
from outlast.errors import WorldUnavailable
from outlast.session import Session
from outlast.world import World
from outlast.wrapping import TYPED, Program, Seat, Wrapped
from tests.unit.engine_desk import Desk, agent_of, say


class Typed(AtTerminal):
    """A program at a terminal of which nothing is known."""

    @asynccontextmanager
    async def beside(self, attempt: Attempt) -> AsyncGenerator[Dialogue]:
        yield cast("Dialogue", None)

    async def written(self, attempt: Attempt) -> None: ...

    @asynccontextmanager
    async def started(self, processes: Processes) -> AsyncGenerator[Program]:
        yield Program((), {})


def turn_of(prompt: str) -> Attempt:
    return cast(
        "Attempt", SimpleNamespace(turn=SimpleNamespace(input=TYPED + prompt), resumed=False, gateway=Open())
    )


class Open:
    """A gateway that lets everybody in."""

    @asynccontextmanager
    async def admit(self, *_: object) -> AsyncGenerator[None]:
        yield


class Gone(WorldUnavailable):
    """The store, once it is gone."""

    def __init__(self) -> None:
        super().__init__(world="memory", reason="gone")


@pytest.mark.parametrize("fails", [True, False])
async def test_a_prompt_that_its_program_was_told_is_not_sent_comes_to_nothing_later(
    *, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.adapters.at_terminal.OPEN_S", 0.01)
    inbox: list[str] = []

    async def say(text: str, input_id: str) -> None:
        inbox.append(text)
        if fails:
            raise Gone

    async def unsay(input_id: str) -> None:
        inbox.append(f"not {input_id}")
        if fails:
            raise Gone

    seat = SimpleNamespace(say=say, unsay=unsay, door=SimpleNamespace(token="t"), session="s")
    typed = Typed(cast("Adapter", None), cast("Seat", seat), "Pi")
    async with typed.at_terminal(cast("Processes", None)):
        if fails:
            with pytest.raises(Gone):
                await typed.begin("p1", "pay")
        else:
            assert not await typed.begin("p1", "pay")
        assert inbox == ["pay", f"not {TYPED}p1"]
        async with asyncio.timeout(5):
            assert await typed.advance(turn_of("p1")) == TurnResult("failed", error=NOT_OPENED)


async def test_a_prompt_that_was_taken_back_begins_no_turn_however_late_a_worker_comes(world: World) -> None:
    agent = agent_of([say("It is paid.")])
    session = await Session.open(world, "s-1", agent=agent)
    await session.send("pay", id=TYPED + "p1")
    assert len(await left(session)) == 1
    await take_back(session, TYPED + "p1", SystemClock())
    assert await left(session) == []
    await Desk(world).work(agent)
    state = await session.state()
    assert (state.turn, state.last, state.queue, await world.inputs("s-1")) == (None, None, [], [])
    await session.send("pay", id=TYPED + "p2")
    await Desk(world).work(agent)
    assert (await session.result(1)).value == ["It is paid."]


async def test_a_program_at_a_terminal_does_not_outlive_whoever_carries_its_turns(tmp_path: Path) -> None:
    typed = cast("Wrapped", SimpleNamespace(broken=asyncio.Event()))
    lives = "import time\nwhile True: open('lives', 'w').close(); time.sleep(0.01)"
    program = Program([sys.executable, "-c", lives], {})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_at_terminal, program, tmp_path, typed, lambda: False)
        while not (tmp_path / "lives").exists():  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):  # what it was started with is gone; the kernel ends it a moment later
        while (tmp_path / "lives").exists():
            (tmp_path / "lives").unlink()
            await anyio.sleep(0.1)
