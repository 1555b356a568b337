"""Callbacks that a step hands out: the loop makes the name, a tool brings it outside, then the loop waits for it."""

from typing import Any

from outlast.adapters.python import IO
from outlast.errors import NothingCame, ToolError
from outlast.records import CallIntent
from outlast.tool import Tool, TryAgain
from tests.conformance.adapted.callbacks import REFUSED, REJECTED, TOLD, late
from tests.conformance.adapted.stage import Stage, beating, shows


async def submit_and_wait(io: IO, submit: Tool, name: str, timeout_s: float | None = None) -> Any:
    """Hand out the name of a callback, then wait for it."""
    await io.tool(submit, given=name)
    return await io.wait_for(name, timeout_s=timeout_s)


SUBMITTED = "submit> submit=ok signal> …"


def _submitted(requirement: str, name: str = "", payload: object = "payload") -> None:
    """The name is handed out by a step, then waited for."""

    @shows(requirement)
    async def _(stage: Stage) -> None:
        submit = stage.step("submit", None)

        async def loop(io: IO, prompt: str) -> object:
            return await submit_and_wait(io, submit, name or prompt)

        await stage.play(loop, "cb-1")
        ((_, handed_out),) = stage.ran
        assert handed_out == (name or "cb-1")
        await stage.signal(handed_out, payload)
        assert await stage.value() == payload
        assert stage.names == ["submit"], "handed out once, though the loop ran twice"
        await stage.expect(f"{SUBMITTED} signal=ok done")


_submitted("7-1")
_submitted("7-2", "approval")
_submitted("7-15", payload=None)


@shows("7-3")
async def its_name_is_made_up(stage: Stage) -> None:
    submit = stage.step("submit", None)

    async def loop(io: IO, prompt: str) -> object:
        return await submit_and_wait(io, submit, await io.uuid())

    await stage.play(loop)
    ((_, handed_out),) = stage.ran
    await stage.signal(handed_out, "payload")
    assert await stage.value() == "payload"
    assert stage.names == ["submit"]


def _refused(requirement: str, *, caught: bool) -> None:
    @shows(requirement)
    async def _(stage: Stage) -> None:
        submit = stage.step("submit", None)

        async def loop(io: IO, prompt: str) -> object:
            await io.tool(submit, given=prompt)
            try:
                return await io.ask(prompt)
            except ToolError:
                if caught:
                    return "recovered"
                raise

        await stage.play(loop, "cb-1")
        await stage.refuse(REJECTED)
        await stage.on()
        if caught:
            assert await stage.value() == "recovered"
        else:
            assert await stage.failure() == REFUSED
        assert stage.names == ["submit"]
        await stage.expect(f"submit> submit=ok {TOLD} {'done' if caught else 'failed'}")


_refused("7-4", caught=False)
_refused("7-6", caught=True)


def _overdue(requirement: str, *, caught: bool) -> None:
    @shows(requirement)
    async def _(stage: Stage) -> None:
        submit = stage.step("submit", None)

        async def loop(io: IO, prompt: str) -> object:
            try:
                return await submit_and_wait(io, submit, prompt, timeout_s=3)
            except NothingCame:
                if caught:
                    return "timed-out-handled"
                raise

        await stage.play(loop, "cb-1")
        await stage.on(3)
        if caught:
            assert await stage.value() == "timed-out-handled"
        else:
            assert await stage.failure() == late("cb-1", 3)
        await stage.expect(f"{SUBMITTED} signal=interrupted {'done' if caught else 'failed'}")


_overdue("7-5", caught=False)
_overdue("7-14", caught=True)


@shows("7-7")
async def it_cannot_be_handed_out(stage: Stage) -> None:
    stage.clock.look_s = 1.0
    submit = stage.step("submit", TryAgain("nobody is there", after_s=1), retries=1)

    async def loop(io: IO, prompt: str) -> object:
        return await submit_and_wait(io, submit, prompt)

    await stage.play(loop, "cb-1")
    assert await stage.failure() == "submit ended as error: nobody is there"
    assert stage.names == ["submit"] * 2
    await stage.expect("submit> submit=again submit=error failed")


@shows("7-8")
async def it_belongs_to_what_surrounds_it(stage: Stage) -> None:
    submit = stage.step("submit", None)

    async def loop(io: IO, prompt: str) -> object:
        async def wrapper(lane: IO) -> object:
            return await lane.gather(lambda inner: submit_and_wait(inner, submit, prompt))

        return await io.gather(wrapper)

    await stage.play(loop, "cb-1")
    await stage.signal("cb-1", "payload")
    assert await stage.value() == [["payload"]]
    lanes = {one.lane for one in await stage.log() if isinstance(one, CallIntent)}
    assert lanes == {"main.0.0.0.0"}
    await stage.expect(f"{SUBMITTED} signal=ok done")


@shows("7-9")
async def one_after_the_other(stage: Stage) -> None:
    submit = stage.step("submit", None)

    async def loop(io: IO, prompt: str) -> object:
        return [await submit_and_wait(io, submit, name) for name in ("first", "second")][-1]

    await stage.play(loop)
    assert stage.ran == [("submit", "first")]
    await stage.signal("first", "payload 1")
    assert stage.ran == [("submit", "first"), ("submit", "second")]
    await stage.signal("second", "payload 2")
    assert await stage.value() == "payload 2"
    assert len(stage.ran) == 2
    await stage.expect(f"{SUBMITTED} signal=ok {SUBMITTED} signal=ok done")


@shows("7-10")
async def among_other_things(stage: Stage) -> None:
    submit, fetch = stage.step("submit", None), stage.step("fetch", "data")

    async def loop(io: IO, prompt: str) -> object:
        await io.sleep(1)
        await io.tool(fetch)
        return await submit_and_wait(io, submit, prompt)

    await stage.play(loop, "cb-1")
    assert stage.ran == []
    await stage.on(1)
    await stage.signal("cb-1", "payload")
    assert await stage.value() == "payload"
    assert stage.names == ["fetch", "submit"]
    await stage.expect(f"sleep> … sleep=ok fetch> fetch=ok {SUBMITTED} signal=ok done")


@shows("7-11")
async def what_came_has_parts(stage: Stage) -> None:
    submit = stage.step("submit", None)

    async def loop(io: IO, prompt: str) -> object:
        return (await submit_and_wait(io, submit, prompt))["status"]

    await stage.play(loop, "cb-1")
    await stage.signal("cb-1", {"status": "approved"})
    assert await stage.value() == "approved"


def _kept_alive(requirement: str, beat_s: float, *, beats: bool) -> None:
    @shows(requirement)
    async def _(stage: Stage) -> None:
        submit = stage.step("submit", None)

        async def loop(io: IO, prompt: str) -> object:
            await io.tool(submit, given=prompt)
            return await beating(io, prompt, beat_s)

        await stage.play(loop, "cb-1")
        await stage.on(beat_s - 1)
        assert await stage.waits()
        if not beats:
            await stage.on(1)
            assert await stage.failure() == late("cb-1", beat_s)
            await stage.expect(f"{SUBMITTED} signal=interrupted failed")
            return
        await stage.signal("cb-1", "beat")
        await stage.on(beat_s - 1)
        await stage.signal("cb-1", "payload")
        assert await stage.value() == "payload"
        await stage.expect(f"{SUBMITTED} signal=ok signal> … signal=ok done")


_kept_alive("7-12", 5, beats=False)
_kept_alive("7-13", 10, beats=True)
