"""Whatever a tool raises, returns or shows: its call ends as an error that says so, and the worker lives on."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from outlast.engine import effects
from outlast.errors import AttemptLost, TurnStopped
from outlast.session import Outcome, Session
from outlast.testing.faults import AroundWorld
from outlast.tool import Done, Tool, ToolFailed, ToolIO, Unsure, Verdict, tool
from outlast.world import Delta, Lease, World
from tests.unit.engine_desk import Desk, agent_of, call, opened
from tests.unit.no_documents import no_documents


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Shown(AroundWorld):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.published = asyncio.Event()

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        await super().publish(lease, after, first, deltas)
        self.published.set()


def looped() -> list[object]:
    endless: list[object] = []
    endless.append(endless)
    return endless


def nested() -> object:
    value: object = 1
    for _ in range(20_000):
        value = [value]
    return value


RAISED: dict[str, tuple[Callable[[], BaseException], str]] = {
    "an error": (lambda: ValueError("no such order"), "ValueError: no such order"),
    "what the model should read": (lambda: ToolFailed("Order 7 is locked."), "Order 7 is locked."),
    "SystemExit": (lambda: SystemExit(3), "SystemExit: 3"),
    "KeyboardInterrupt": (KeyboardInterrupt, "KeyboardInterrupt"),
    "a cancellation of its own": (lambda: asyncio.CancelledError("mine"), "CancelledError: mine"),
    "GeneratorExit": (GeneratorExit, "GeneratorExit"),
    "StopAsyncIteration": (lambda: StopAsyncIteration("end"), "StopAsyncIteration"),
    "a group": (
        lambda: ExceptionGroup("two", [ValueError("a"), OSError("b")]),
        "ExceptionGroup: ValueError: a; OSError: b",
    ),
    "a group with SystemExit": (
        lambda: BaseExceptionGroup("two", [SystemExit(1)]),
        "BaseExceptionGroup: SystemExit: 1",
    ),
    "our own control flow": (lambda: AttemptLost("not really"), "AttemptLost: not really"),
    "the end of the turn": (lambda: TurnStopped("not really"), "TurnStopped: not really"),
    "a time-out of its own": (lambda: TimeoutError("upstream"), "TimeoutError: upstream"),
    "50 MB of text": (lambda: ValueError("x" * 50_000_000), "xxx …"),
    "half a surrogate pair": (lambda: ValueError("\ud800"), r"ValueError: \ud800"),
    "NUL bytes": (lambda: ValueError("a\0b"), "ValueError: a\0b"),
    "an error without words": (Wordless, "Wordless: (its text raised RuntimeError)"),
}

LOST: dict[str, Callable[[], object]] = {
    "an object": object,
    "a function": lambda: print,
    "a list that holds itself": looped,
    "20,000 lists in one another": nested,
    "50 MB": lambda: "x" * 50_000_000,
    "half a surrogate pair": lambda: "\ud800",
    "half a surrogate pair as a key": lambda: {"\udfff": 1},
    "a key that is no text": lambda: {(1, 2): 3},
}

KEPT: dict[str, tuple[Callable[[], object], object]] = {
    "nothing": (lambda: None, None),
    "NUL bytes": (lambda: "a\0b", "a\0b"),
    "every plane of Unicode": (lambda: "ä\u2028\U0001f600", "ä\u2028\U0001f600"),
    "9 MB": (lambda: ["x" * 9_000_000], ["x" * 9_000_000]),
    "an empty key": (lambda: {"": []}, {"": []}),
}


async def outcome_of(world: World, tried: Tool) -> tuple[Outcome, Session]:
    """A turn in which the tool is called, and another tool after it."""

    @tool
    async def after(io: ToolIO) -> str:
        """Show that the worker lives."""
        return "alive"

    agent = agent_of([call(tried.name), call("after")], tried, after)
    session = await opened(world, agent)
    await Desk(world).work(agent)
    outcome = await session.result(1)
    assert outcome.status == "done"
    assert outcome.value[1] == "alive"
    return outcome, session


def read(outcome: Outcome) -> str:
    """What the model reads of the failed call."""
    result: dict[str, Any] = outcome.value[0]
    assert result["status"] == "error"
    return result["value"]


@pytest.mark.parametrize("name", RAISED)
async def test_a_tool_that_raises_ends_as_an_error_that_says_what(world: World, name: str) -> None:
    make, text = RAISED[name]

    @tool
    async def raises(io: ToolIO) -> str:
        """Raise."""
        raise make()

    outcome, _ = await outcome_of(world, raises)
    assert text in read(outcome)
    assert len(read(outcome)) < 70_000


@pytest.mark.parametrize("name", LOST)
async def test_a_result_that_cannot_be_written_down_is_an_error_that_says_that_it_ran(
    world: World, name: str
) -> None:
    @tool
    async def returns(io: ToolIO) -> object:
        """Return."""
        return LOST[name]()

    outcome, _ = await outcome_of(world, returns)
    assert "ran to its end, but its result is lost" in read(outcome)


@pytest.mark.parametrize("name", KEPT)
async def test_a_result_that_is_json_comes_back_as_it_was(world: World, name: str) -> None:
    make, expected = KEPT[name]

    @tool
    async def returns(io: ToolIO) -> object:
        """Return."""
        return make()

    outcome, session = await outcome_of(world, returns)
    assert outcome.value[0] == expected
    assert (await session.state()).turn is None


@pytest.mark.parametrize("stubbornness", ["ends when cancelled", "raises instead", "goes on for ever"])
async def test_a_tool_that_overruns_its_time_is_an_error_and_holds_nobody_up(
    world: World, stubbornness: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "STUBBORN_S", 0.05)
    over = asyncio.Event()

    @tool(timeout_s=0.02)
    async def slow(io: ToolIO) -> str:
        """Take too long."""
        try:
            await over.wait()
        except asyncio.CancelledError:
            if stubbornness == "raises instead":
                raise ValueError("interrupted") from None
            while stubbornness == "goes on for ever" and not over.is_set():
                with suppress(asyncio.CancelledError):
                    await over.wait()
            raise
        return "too late"

    outcome, _ = await outcome_of(world, slow)
    over.set()
    assert "time-out (limit 0.02 s)" in read(outcome)
    assert "may have taken effect" in read(outcome)


async def test_a_tool_that_ends_within_the_grace_after_its_time_keeps_its_result(world: World) -> None:
    @tool(timeout_s=0.02)
    async def slow(io: ToolIO) -> str:
        """Take a little too long."""
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done after all"

    outcome, _ = await outcome_of(world, slow)
    assert outcome.value[0] == "done after all"


async def test_what_a_tool_shows_never_ends_the_attempt(world: World) -> None:
    shown = Shown(world)

    @tool
    async def shows(io: ToolIO) -> str:
        """Show all kinds of things."""
        io.show("half \ud800")
        io.show("a\0b")
        io.show("x" * 1_000_000)
        with pytest.raises(TypeError):
            io.show(b"bytes")  # pyright: ignore[reportArgumentType] - as users do
        await shown.published.wait()
        return "shown"

    outcome, session = await outcome_of(shown, shows)
    assert outcome.value[0] == "shown"
    texts = ""
    async for event in session.follow():
        if event.kind == "call.output":
            texts += event.text
        if event.kind == "turn.settled":
            break
    assert texts == "half \\ud800" + "a\0b" + "x" * 1_000_000


@pytest.mark.parametrize("name", RAISED)
async def test_a_verify_that_raises_is_unsure(name: str) -> None:
    make, _ = RAISED[name]

    async def verify(io: ToolIO) -> Verdict:
        raise make()

    assert isinstance(await effects.ask_verify(asked(verify), io(), {}), Unsure)


async def test_a_verify_that_gives_no_answer_in_time_is_unsure() -> None:
    async def verify(io: ToolIO) -> Verdict:
        await asyncio.Event().wait()
        return Done()

    verdict = await effects.ask_verify(asked(verify, timeout_s=0.02), io(), {})
    assert verdict == Unsure("verify gave no answer within 0.02 s")


def asked(verify: Callable[[ToolIO], Any], *, timeout_s: float = 5.0) -> Tool:
    @tool(verify=verify, timeout_s=timeout_s)
    async def refund(io: ToolIO) -> str:
        """Refund."""
        return "refunded"

    return refund


def io() -> effects.CallIO:
    return effects.CallIO(lambda: "key", "s-1", 1, 1, 1, lambda _: None, no_documents())
