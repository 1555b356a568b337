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
from outlast.cli.wrapped import run_at_terminal
from outlast.wrapping import TYPED, Program, Seat, Wrapped


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


@pytest.mark.parametrize("fails", [True, False])
async def test_a_prompt_that_its_program_was_told_is_not_sent_comes_to_nothing_later(
    *, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.adapters.at_terminal.OPEN_S", 0.01)
    inbox: list[str] = []

    async def say(text: str, input_id: str) -> None:
        inbox.append(text)
        if fails:
            raise ConnectionError

    door = SimpleNamespace(token="t")
    typed = Typed(cast("Adapter", None), cast("Seat", SimpleNamespace(say=say, door=door)), "Pi")
    async with typed.at_terminal(cast("Processes", None)):
        if fails:
            with pytest.raises(ConnectionError):
                await typed.begin("p1", "pay")
        else:
            assert not await typed.begin("p1", "pay")
        assert inbox == ["pay"]
        async with asyncio.timeout(5):
            assert await typed.advance(turn_of("p1")) == TurnResult("failed", error=NOT_OPENED)


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
