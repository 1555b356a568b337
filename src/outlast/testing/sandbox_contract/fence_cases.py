"""Who holds a box: the newest fence, and nobody whose time is over."""

from dataclasses import replace
from typing import Final

import anyio

from outlast.errors import BoxError, Fenced, OutlastError
from outlast.testing.sandbox_contract.blocks import (
    begun,
    ended,
    held,
    raises,
    ran,
    same,
    until,
    written_so_far,
)
from outlast.testing.sandbox_contract.case import Case, Ground, promise
from outlast.testing.sandbox_contract.holder import holder


@promise("outlives")
async def a_newer_fence_takes_the_box_and_the_older_one_is_refused(ground: Ground) -> None:
    async with held(ground, 1, idle_s=60) as old:
        job = await begun(old, "sleep 600")
        async with held(ground, 2, idle_s=60) as new:
            same(new.lived, True)
            for ask in (
                old.beat(60),
                old.find("any"),
                begun(old, "true"),
                old.read("/etc/passwd"),
                job.wait(),
            ):
                with raises(Fenced):
                    await ask
            same((await ran(new, "echo mine")), (0, "mine\n"))


@promise("outlives")
async def a_newer_fence_comes_when_what_was_tied_to_the_older_is_dead(ground: Ground) -> None:
    async with held(ground, 1, idle_s=60) as old:
        tied = await begun(old, "setsid sleep 600 & echo $! $$; exec sleep 600", tied=True, job="tied")
        pids = (await written_so_far(tied, "\n")).split()
        free = await begun(old, "echo $$; exec sleep 600", job="free")
        pid = (await written_so_far(free, "\n")).strip()
        async with held(ground, 2, idle_s=60) as new:
            for dead in pids:
                same((await ran(new, f"kill -0 {dead}"))[0], 1)
            same((await ran(new, f"kill -0 {pid}"))[0], 0)
            found = await new.find("free")
            assert found is not None
            await found.signal(9)
            same(await ended(found), 137)


@promise()
async def an_older_fence_cannot_attach(ground: Ground) -> None:
    async with held(ground, 5, idle_s=30 if "outlives" in ground.abilities else 0) as box:
        with raises(Fenced):
            async with held(ground, 4, idle_s=30 if "outlives" in ground.abilities else 0):
                pass
        same((await ran(box, "echo mine")), (0, "mine\n"))


@promise("outlives")
async def of_holders_that_race_the_newest_holds_one_box(ground: Ground) -> None:
    outcomes: dict[int, str] = {}

    async def others_gave_up() -> bool:
        return len(outcomes) == 3

    async def race(fence: int) -> None:
        try:
            async with held(ground, fence, idle_s=60) as box:
                await begun(box, "echo begun >> count; exec sleep 600", job="one")
                if fence == 4:
                    await until(others_gave_up, "the older ones are refused")
                while fence < 4:
                    await box.beat(60)
                outcomes[fence] = "held"
        except Fenced:
            outcomes[fence] = "fenced"

    async with anyio.create_task_group() as tasks:
        for fence in (1, 2, 3, 4):
            tasks.start_soon(race, fence)
    same(outcomes, {1: "fenced", 2: "fenced", 3: "fenced", 4: "held"})
    same(len(await ground.provider().list({})), 1)
    async with held(ground, 5, idle_s=60) as box:
        same(await ran(box, "cat count"), (0, "begun\n"))


@promise("outlives")
async def a_tied_job_dies_when_its_worker_is_not_heard_of(ground: Ground) -> None:
    async with held(ground, idle_s=60) as box:
        tied = await begun(box, "sleep 600", tied=True)
        free = await begun(box, "sleep 600")
        await box.beat(0.5)
        same(await ended(tied), 137)
        await free.signal(9)
        same(await ended(free), 137)
        await box.beat(60)
        same(await ended(await begun(box, "sleep 1", tied=True)), 0)


@promise("outlives", apart=True)
async def a_stopped_worker_past_its_deadline_leaves_nothing_that_acts(ground: Ground) -> None:
    spec = replace(ground.spec, idle_s=60)
    async with holder(ground, spec, fence=1) as old:
        await old.begin("tied", "while :; do echo tick; sleep 0.05; done", tied=True)
        await old.beat(1.0)
        old.stop()
        async with held(ground, 2, idle_s=60) as new:
            same(new.lived, True)
            tied = await new.find("tied")
            assert tied is not None
            same(await ended(tied), 137)
            old.go_on()
            same(await old.begin("late", "true", tied=True), "Fenced")
            same(await new.find("late"), None)


@promise(apart=True)
async def a_stopped_worker_loses_a_box_that_ends_with_it(ground: Ground) -> None:
    async with holder(ground, ground.spec, fence=1) as old:
        await old.begin("tied", "while :; do echo tick; sleep 0.05; done", tied=True)
        old.stop()
        async with held(ground, 2) as new:
            same(new.lived, False)
            same(await new.find("tied"), None)
            old.go_on()
            assert await old.begin("late", "true", tied=True) in {"Fenced", "BoxGone"}
            old.kill()
            same(await ran(new, "echo mine"), (0, "mine\n"))


@promise()
async def when_the_block_ends_tied_jobs_are_dead(ground: Ground) -> None:
    idle_s = 60 if "outlives" in ground.abilities else 0
    async with held(ground, 1, idle_s=idle_s) as box:
        await begun(box, "sleep 600", tied=True, job="tied")
        await begun(box, "sleep 600", job="free")
    with raises((BoxError, Fenced)):
        await box.beat(1)
    async with held(ground, 2, idle_s=idle_s) as again:
        same(again.lived, idle_s > 0)
        tied, free = await again.find("tied"), await again.find("free")
        if idle_s:
            assert tied is not None
            assert free is not None
            same(await ended(tied), 137)
            await free.signal(15)
            same(await ended(free), 143)


@promise()
async def an_error_in_the_block_comes_out_as_it_is(ground: Ground) -> None:
    class Mine(OutlastError):
        text = "mine"

    with raises(Mine):
        async with held(ground) as box:
            await begun(box, "sleep 600", tied=True)
            raise Mine


CASES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Case))
