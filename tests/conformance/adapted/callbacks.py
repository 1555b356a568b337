"""Callbacks: what a loop waits for comes from a system outside, by a name that was handed out, once, late or never.

Where the outside may report a failure the wait is `io.ask`, which a decision ends well or ill; elsewhere it is
`io.wait_for`, which a signal ends. A callback that exists before it is waited for is a wait in a lane of its own.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from outlast.adapters.python import IO
from outlast.errors import NothingCame, ToolError
from tests.conformance.adapted.stage import Stage, beating, shows

Lane: TypeAlias = Callable[[IO], Awaitable[Any]]

REJECTED = "RejectedError: not approved"
REFUSED = f"ask ended as error: {REJECTED}"
TOLD = "person> … person=error"


def late(name: str, seconds: float) -> str:
    return f"Nothing came for the signal '{name}' within {seconds:g} s."


def _completed(requirement: str, name: str = "") -> None:
    """The callback has this name, by default the one that the turn was given."""

    @shows(requirement)
    async def _(stage: Stage) -> None:
        async def loop(io: IO, prompt: str) -> object:
            return await io.wait_for(name or prompt)

        await stage.play(loop, "cb-1")
        await stage.signal("another", "not for this")
        assert await stage.waits()
        await stage.signal(name or "cb-1", "payload")
        assert await stage.value() == "payload"
        await stage.expect("signal> … … signal=ok done")


_completed("4-1")
_completed("4-2", "approval")


@shows("4-3")
async def nothing_came(stage: Stage) -> None:
    async def loop(io: IO, prompt: str) -> object:
        return await io.wait_for(prompt, timeout_s=5)

    await stage.play(loop, "cb-1")
    await stage.on(4.5)
    assert await stage.waits()
    await stage.on(0.5)
    assert await stage.failure() == late("cb-1", 5)
    await stage.expect("signal> … signal=interrupted failed")


@shows("4-4")
async def no_heartbeat_came(stage: Stage) -> None:
    async def loop(io: IO, prompt: str) -> object:
        return await beating(io, prompt, 5)

    await stage.play(loop, "cb-1")
    await stage.on(5)
    assert await stage.failure() == late("cb-1", 5)
    await stage.expect("signal> … signal=interrupted failed")


@shows("4-5")
async def a_heartbeat_begins_the_time_anew(stage: Stage) -> None:
    async def loop(io: IO, prompt: str) -> object:
        return await beating(io, prompt, 10)

    await stage.play(loop, "cb-1")
    await stage.on(8)
    await stage.signal("cb-1", "beat")
    await stage.on(8)
    assert await stage.waits()
    await stage.signal("cb-1", "payload")
    assert await stage.value() == "payload"
    await stage.expect("signal> … signal=ok signal> … signal=ok done")


@shows("4-6")
async def the_outside_reports_a_failure(stage: Stage) -> None:
    async def loop(io: IO, prompt: str) -> object:
        return await io.ask(prompt)

    await stage.play(loop, "cb-1")
    await stage.refuse(REJECTED)
    await stage.on()
    assert await stage.failure() == REFUSED
    await stage.expect(f"{TOLD} failed")


def _beside(callback: Lane, other: Lane) -> Callable[[IO, str], Awaitable[object]]:
    """A loop in which the callback exists from the beginning, whatever else goes on."""

    async def loop(io: IO, prompt: str) -> object:
        return (await io.gather(callback, other))[0]

    return loop


@shows("4-7")
async def a_failure_is_reported_after_a_step(stage: Stage) -> None:
    step = stage.step("prepare", "ready")
    await stage.play(_beside(lambda lane: lane.ask("cb-1"), lambda lane: lane.tool(step)))
    assert stage.names == ["prepare"]
    await stage.refuse(REJECTED)
    await stage.on()
    assert await stage.failure() == REFUSED
    assert stage.names == ["prepare"]
    await stage.expect("person> prepare> prepare=ok … person=error failed")


@shows("4-8")
async def nothing_came_after_a_step(stage: Stage) -> None:
    step = stage.step("prepare", "ready")
    await stage.play(_beside(lambda lane: lane.wait_for("cb-1", timeout_s=5), lambda lane: lane.tool(step)))
    await stage.on(5)
    assert await stage.failure() == late("cb-1", 5)
    assert stage.names == ["prepare"]
    await stage.expect("signal> prepare> prepare=ok … signal=interrupted failed")


@shows("4-9")
async def it_is_completed_during_a_wait(stage: Stage) -> None:
    await stage.play(_beside(lambda lane: lane.wait_for("cb-1"), lambda lane: lane.sleep(5)))
    await stage.signal("cb-1", "payload")
    assert await stage.waits()
    await stage.on(5)
    assert await stage.value() == "payload"
    await stage.expect("signal> sleep> … signal=ok … sleep=ok done")


@shows("4-10")
async def it_fails_during_a_wait(stage: Stage) -> None:
    await stage.play(_beside(lambda lane: lane.ask("cb-1"), lambda lane: lane.sleep(5)))
    await stage.refuse(REJECTED)
    await stage.on()
    assert await stage.waits(), "the other lane comes to its end"
    await stage.on(5)
    assert await stage.failure() == REFUSED
    await stage.expect("person> sleep> … person=error … sleep=ok failed")


@shows("4-11")
async def its_time_is_over_during_a_wait(stage: Stage) -> None:
    await stage.play(_beside(lambda lane: lane.wait_for("cb-1", timeout_s=3), lambda lane: lane.sleep(6)))
    await stage.on(3)
    await stage.tell("cb-1", "too late")
    await stage.on(3)
    assert await stage.failure() == late("cb-1", 3)
    await stage.expect("signal> sleep> … signal=interrupted … sleep=ok failed")


@shows("4-12")
async def what_came_is_read_back(stage: Stage) -> None:
    seen: list[object] = []

    async def loop(io: IO, prompt: str) -> object:
        seen.append(await io.wait_for(prompt))
        await io.sleep(2)
        return seen[-1]

    await stage.play(loop, "cb-1")
    await stage.signal("cb-1", "payload")
    await stage.on(2)
    assert await stage.value() == "payload"
    assert (seen, stage.workers) == (["payload"] * 2, 3)
    await stage.expect("signal> … signal=ok sleep> … sleep=ok done")


@shows("4-13")
async def a_failure_that_was_caught_is_read_back(stage: Stage) -> None:
    seen: list[str] = []

    async def loop(io: IO, prompt: str) -> object:
        try:
            await io.ask(prompt)
        except ToolError as error:
            seen.append(str(error))
        await io.sleep(2)
        return seen[-1]

    await stage.play(loop, "cb-1")
    await stage.refuse(REJECTED)
    await stage.on()
    await stage.on(2)
    assert await stage.value() == REFUSED
    assert (seen, stage.workers) == ([REFUSED] * 2, 3)
    await stage.expect(f"{TOLD} sleep> … sleep=ok done")


@shows("4-14")
async def a_time_that_was_over_is_read_back(stage: Stage) -> None:
    seen: list[str] = []

    async def loop(io: IO, prompt: str) -> object:
        try:
            await io.wait_for(prompt, timeout_s=3)
        except NothingCame as error:
            seen.append(str(error))
        await io.sleep(2)
        return seen[-1]

    await stage.play(loop, "cb-1")
    await stage.on(3)
    await stage.tell("cb-1", "too late")
    await stage.on(2)
    assert await stage.value() == late("cb-1", 3)
    assert seen == [late("cb-1", 3)] * 2
    await stage.expect("signal> … signal=interrupted sleep> … sleep=ok done")


class Message(msgspec.Struct):
    """What an outside system sends."""

    id: str
    message: str
    timestamp: datetime


@shows("4-15")
async def what_came_is_read_as_a_type(stage: Stage) -> None:
    async def loop(io: IO, prompt: str) -> object:
        found = msgspec.convert(await io.wait_for(prompt), Message)
        assert found.timestamp.tzinfo is UTC or found.timestamp.utcoffset() is not None
        return {**msgspec.to_builtins(found), "timestamp": found.timestamp.timestamp()}

    await stage.play(loop, "cb-1")
    await stage.signal("cb-1", {"id": "m-1", "message": "hello", "timestamp": "2026-01-01T00:00:00.000Z"})
    assert await stage.value() == {"id": "m-1", "message": "hello", "timestamp": 1_767_225_600}


@shows("4-16")
async def what_came_is_read_as_a_number(stage: Stage) -> None:
    async def loop(io: IO, prompt: str) -> object:
        count = msgspec.convert(await io.wait_for(prompt), int, strict=False)
        return {"count": count, "doubled": 2 * count}

    await stage.play(loop, "cb-1")
    await stage.signal("cb-1", "42")
    assert await stage.value() == {"count": 42, "doubled": 84}


def _two(requirement: str, order: str, came: str, story: str, *, at_once: bool) -> None:
    """Two callbacks.

    Args:
        order: in which they are waited for.
        came: in which they are completed.
        at_once: both exist from the beginning.
    """

    @shows(requirement)
    async def _(stage: Stage) -> None:
        async def one_by_one(io: IO, prompt: str) -> object:
            return {name: await io.wait_for(name) for name in order}

        async def together(io: IO, prompt: str) -> object:
            lanes: list[Lane] = [lambda lane, name=name: lane.wait_for(name) for name in order]
            return dict(zip(order, await io.gather(*lanes), strict=True))

        await stage.play(together if at_once else one_by_one)
        for name in came:
            assert await stage.waits()
            await stage.signal(name, f"payload {name}")
        assert await stage.value() == {"a": "payload a", "b": "payload b"}
        await stage.expect(story)


_two("4-17", "ab", "ab", "signal> … signal=ok signal> … signal=ok done", at_once=False)
_two("4-18", "ab", "ab", "signal> signal> … signal=ok … signal=ok done", at_once=True)
_two("4-19", "ba", "ab", "signal> signal> … signal=ok … signal=ok done", at_once=True)
