"""Steps and waits: what a tool does is done once and read back, what is tried again pauses, a wait costs nothing."""

from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

from outlast.adapters.python import IO
from outlast.cli.awaited import awaited_by
from outlast.errors import NothingCame, ToolError
from outlast.records import CallIntent, CallOutcome
from outlast.tool import ToolFailed, ToolIO, TryAgain, tool
from tests.conformance.adapted.stage import Play, Stage, shows


def greeting(given: Any) -> str:
    return f"Hello, {given}!"


def and_second(given: Any) -> str:
    return f"{given}_second"


class PassingError(Exception):
    """What a tool may meet."""


def _greets(requirement: str, name: str) -> None:
    @shows(requirement)
    async def _(stage: Stage) -> None:
        greet = stage.step(name, greeting)

        async def loop(io: IO, prompt: str) -> object:
            return await io.tool(greet, given=prompt)

        await stage.play(loop, "World")
        assert await stage.value() == "Hello, World!"
        await stage.expect(f"{name}> {name}=ok done")


_greets("1-1", "greet")
_greets("1-2", "custom_step_name")


@shows("1-3")
async def one_step_takes_what_another_gave(stage: Stage) -> None:
    one, two = stage.step("one", "first"), stage.step("two", and_second)

    async def loop(io: IO, prompt: str) -> object:
        return await io.tool(two, given=await io.tool(one))

    await stage.play(loop)
    assert await stage.value() == "first_second"
    await stage.expect("one> one=ok two> two=ok done")


@shows("1-4")
async def nested_values_survive(stage: Stage) -> None:
    def build(given: Mapping[str, Any]) -> object:
        return {"user": given, "count": len(given["tags"])}

    step = stage.step("build", build)
    seen: list[object] = []

    async def loop(io: IO, prompt: str) -> object:
        seen.append(await io.tool(step, given={"name": "Alice", "tags": ["admin", "active"]}))
        await io.sleep(1)
        return seen[-1]

    await stage.play(loop)
    await stage.on(1)
    assert await stage.value() == {"user": {"name": "Alice", "tags": ["admin", "active"]}, "count": 2}
    assert seen == [await stage.value()] * 2


@shows("1-5")
async def nothing_is_a_result(stage: Stage) -> None:
    step = stage.step("nothing", None)

    async def loop(io: IO, prompt: str) -> object:
        found = await io.tool(step)
        await io.sleep(1)
        return found

    await stage.play(loop)
    await stage.on(1)
    assert await stage.value() is None
    assert stage.names == ["nothing"]


@shows("1-6")
async def a_result_is_read_as_it_was_written(stage: Stage) -> None:
    def loud(given: str) -> str:  # a function around the step's own: the place of a serializer here
        return str(given).upper()

    step = stage.step("echo", loud)
    seen: list[object] = []

    async def loop(io: IO, prompt: str) -> object:
        seen.append(await io.tool(step, given=prompt))
        await io.sleep(1)
        return seen[-1]

    await stage.play(loop, "hello world")
    await stage.on(1)
    assert await stage.value() == "HELLO WORLD"
    assert seen == ["HELLO WORLD"] * 2
    written = [one.result.value() for one in await stage.log() if isinstance(one, CallOutcome)]
    assert written[0] == "HELLO WORLD"


@shows("1-7")
async def a_step_says_what_it_does(stage: Stage) -> None:
    lines = ["started for you", "completed for you"]

    @tool
    async def greet(io: ToolIO, given: str) -> str:
        """Greet; it ends only when a watcher has seen all that it says."""
        for line in lines:
            io.show(f"{line}\n")
        shown = ""
        async with aclosing((await stage.session()).follow()) as coming:
            async for event in coming:
                shown += event.text if event.kind == "call.output" else ""
                if shown == "".join(f"{line}\n" for line in lines):
                    break
        return greeting(given)

    stage.tools.append(greet)

    async def loop(io: IO, prompt: str) -> object:
        return await io.tool(greet, given=prompt)

    await stage.play(loop, "you")
    assert await stage.value() == "Hello, you!"
    await stage.expect("greet> greet=ok done")


def _step_and_wait(requirement: str, seconds: float) -> None:
    @shows(requirement)
    async def _(stage: Stage) -> None:
        step = stage.step("compute", "computed", "computed a second time")

        async def loop(io: IO, prompt: str) -> object:
            found = await io.tool(step)
            await io.sleep(seconds)
            return found

        await stage.play(loop)
        assert await stage.waits()
        await stage.on(seconds)
        assert await stage.value() == "computed"
        assert (stage.names, stage.workers) == (["compute"], 2)
        await stage.expect("compute> compute=ok sleep> … sleep=ok done")


_step_and_wait("1-8", 2)
_step_and_wait("1-9", 1)


@shows("1-10")
async def what_failed_fails_again_without_running(stage: Stage) -> None:
    step = stage.step("break", ValueError("for good"), "all is well")
    seen: list[str] = []

    async def loop(io: IO, prompt: str) -> object:
        try:
            await io.tool(step)
        except ToolError as error:
            seen.append(str(error))
        await io.sleep(1)
        return None

    await stage.play(loop)
    await stage.on(1)
    assert await stage.value() is None
    assert seen == ["break ended as error: ValueError: for good"] * 2
    assert stage.names == ["break"]
    await stage.expect("break> break=error sleep> … sleep=ok done")


def _tried_again(requirement: str, *ends: object, retries: int, look_s: float, story: str) -> None:
    """A step that ends so, one try after the other."""

    @shows(requirement)
    async def _(stage: Stage) -> None:
        stage.clock.look_s = look_s
        step = stage.step("try", *ends, retries=retries)

        async def loop(io: IO, prompt: str) -> object:
            return await io.tool(step)

        await stage.play(loop)
        assert len(stage.ran) == len(ends)
        if story.endswith("done"):
            assert await stage.value() == ends[-1]
        else:
            assert await stage.failure() == f"try ended as error: {ends[-1]}"
        await stage.expect(story)
        _check_pauses(requirement, [b - a for a, b in zip(stage.ran_at, stage.ran_at[1:], strict=False)])


def _check_pauses(requirement: str, pauses: list[float]) -> None:
    match requirement:
        case "1-13":  # half a second, then twice that, and so on
            assert 0.5 <= pauses[0] < 1.5 <= pauses[1] < 2.5, pauses
        case "1-14":  # what the tool asks for
            assert 2.0 <= pauses[0] < 6.0 <= pauses[1] < 10.0, pauses
        case _:
            assert min(pauses) >= 1.0, pauses


def busy(after_s: float = 1.0) -> TryAgain:
    return TryAgain("busy", after_s=after_s)


_tried_again("1-11", busy(), "at last", retries=1, look_s=10.0, story="try> try=again try=ok done")
_tried_again(
    "1-12",
    *[busy()] * 4,
    retries=3,
    look_s=10.0,
    story="try> try=again try=again try=again try=error failed",
)
_tried_again(
    "1-13", busy(0), busy(0), "at last", retries=5, look_s=0.25, story="try> try=again try=again try=ok done"
)
_tried_again(
    "1-14", busy(2), busy(6), "at last", retries=4, look_s=0.5, story="try> try=again try=again try=ok done"
)


def _chooses(requirement: str, *, passes: bool) -> None:
    """A step that knows of each failure whether it is worth another try."""

    @shows(requirement)
    async def _(stage: Stage) -> None:
        stage.clock.look_s = 10.0
        failures = [PassingError("cut off")]

        def reach(given: object) -> str:
            try:
                if failures:
                    raise failures.pop()
            except PassingError as error:
                if passes:
                    raise TryAgain(f"{type(error).__name__}: {error}") from error
                raise
            return "reached"

        step = stage.step("reach", reach, retries=3)

        async def loop(io: IO, prompt: str) -> object:
            return await io.tool(step)

        await stage.play(loop)
        if passes:
            assert await stage.value() == "reached"
            await stage.expect("reach> reach=again reach=ok done")
        else:
            assert await stage.failure() == "reach ended as error: PassingError: cut off"
            await stage.expect("reach> reach=error failed")


_chooses("1-15", passes=True)
_chooses("1-16", passes=False)


@shows("1-17")
async def a_step_that_was_cut_off_is_not_run_again(stage: Stage) -> None:
    step = stage.step("charge", "charged")

    async def loop(io: IO, prompt: str) -> object:
        return await io.tool(step, given=prompt)

    await stage.play(loop, "81", dies=True)
    await stage.on()
    assert (await stage.failure()).startswith("charge ended as in_doubt:")
    assert stage.ran == [("charge", "81")]
    await stage.expect("charge> charge=in_doubt failed")


@shows("1-18")
async def a_step_that_was_cut_off_is_run_again_where_the_loop_wants_it(stage: Stage) -> None:
    step = stage.step("charge", "lost", "succeeded on second attempt")

    async def loop(io: IO, prompt: str) -> object:
        try:
            return await io.tool(step, given=prompt)
        except ToolError as error:
            if error.status != "in_doubt":
                raise
        await io.sleep(1)
        return await io.tool(step, given=prompt)

    await stage.play(loop, "81", dies=True)
    await stage.on()
    await stage.on(1)
    assert await stage.value() == "succeeded on second attempt"
    assert stage.ran == [("charge", "81")] * 2
    await stage.expect("charge> charge=in_doubt sleep> … sleep=ok charge> charge=ok done")


@shows("1-19")
async def a_step_that_fails_fails_the_turn(stage: Stage) -> None:
    step = stage.step("break", ToolFailed("for good"))

    async def loop(io: IO, prompt: str) -> object:
        return await io.tool(step)

    await stage.play(loop)
    assert await stage.failure() == "break ended as error: for good"
    await stage.expect("break> break=error failed")


@shows("1-20")
async def a_failure_that_is_caught_fails_nothing(stage: Stage) -> None:
    step, other = stage.step("break", ToolFailed("for good")), stage.step("other", "fallback_result")

    async def loop(io: IO, prompt: str) -> object:
        try:
            return await io.tool(step)
        except ToolError:
            return await io.tool(other)

    await stage.play(loop)
    assert await stage.value() == "fallback_result"
    await stage.expect("break> break=error other> other=ok done")


def _sleeps(requirement: str, *times_s: float) -> Play:
    @shows(requirement)
    async def play(stage: Stage) -> None:
        async def loop(io: IO, prompt: str) -> object:
            for seconds in times_s:
                await io.sleep(seconds)
            return {"completedWaits": len(times_s)}

        await stage.play(loop)
        for seconds in times_s:
            await stage.on(seconds - 0.5)
            assert await stage.waits()
            await stage.on(0.5)
        assert await stage.value() == {"completedWaits": len(times_s)}
        await stage.expect(" ".join(["sleep> … sleep=ok"] * len(times_s) + ["done"]))
        begun = [one for one in await stage.log() if isinstance(one, CallIntent)]
        assert [one.until_s - one.at_s for one in begun] == list(times_s)

    return play


_sleeps("2-1", 2)
_sleeps("2-3", 2, 2)
_sleeps("2-4", 60)
_sleeps("2-5", 3600)


@shows("2-2")
async def a_wait_has_a_name(stage: Stage) -> None:
    async def loop(io: IO, prompt: str) -> object:
        with suppress(NothingCame):
            await io.wait_for("cool-down", timeout_s=2)  # a signal that nobody sends
        return "cooled down"

    await stage.play(loop)
    assert "cool-down" in [wait.signal for wait in await awaited_by(*await stage.at_rest())]
    await stage.on(2)
    assert await stage.value() == "cooled down"
    await stage.expect("signal> … signal=interrupted done")
