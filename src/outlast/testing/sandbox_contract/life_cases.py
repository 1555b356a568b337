"""How long a box lives, and what is left of it."""

from dataclasses import replace
from typing import Final

from outlast.errors import BoxError, BoxGone
from outlast.testing.sandbox_contract.blocks import (
    begun,
    ended,
    held,
    nothing_left,
    raises,
    ran,
    same,
    until,
    written,
    written_so_far,
)
from outlast.testing.sandbox_contract.case import Case, Ground, promise
from outlast.testing.sandbox_contract.holder import holder


@promise()
async def a_box_without_idle_time_ends_with_the_block(ground: Ground) -> None:
    async with held(ground) as box:
        same(box.lived, False)
        await begun(box, "setsid sleep 600 & exec sleep 600")
        await box.write("file", b"kept no longer than the box")
    await nothing_left(ground, box)
    with raises(BoxGone):
        await ground.provider().dial(box.ref)
    async with held(ground, 2) as new:
        same(new.lived, False)


@promise(apart=True)
async def a_box_without_idle_time_ends_with_a_killed_worker(ground: Ground) -> None:
    async with holder(ground, ground.spec, fence=1) as other:
        await other.begin("tied", "setsid sleep 600 & exec sleep 600", tied=True)
        await other.begin("free", "setsid sleep 600 & exec sleep 600")
        [found] = await ground.provider().list({})
        assert await ground.left(found.ref), "it stands"
        other.kill()

        async def gone() -> bool:
            return not await ground.left(found.ref)

        await until(gone, "nothing is left of the box")


@promise("outlives", apart=True)
async def a_command_goes_on_when_its_worker_is_killed_and_the_next_reads_on(ground: Ground) -> None:
    spec = replace(ground.spec, idle_s=60)
    line = "echo begun >> count; for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.25; done; exit 6"
    async with holder(ground, spec, fence=1) as other:
        same(await other.begin("tests", line), "begun")
        other.kill()
        async with held(ground, 2, idle_s=60) as box:
            same(box.lived, True)
            job = await begun(box, line, job="tests")
            first = await written_so_far(job, "line 1\n")
            same(await ended(job), 6)
            rest = await written(job, offset=len(first))
            same((first + rest).split("\n")[:-1], [f"line {number}" for number in range(1, 9)])
            same(await ran(box, "cat count"), (0, "begun\n"))


@promise("outlives")
async def a_box_that_nobody_holds_ends_by_itself(ground: Ground) -> None:
    async with held(ground, idle_s=2) as box:
        await begun(box, "exec sleep 600")
    assert await ground.left(box.ref), "it stands"
    await nothing_left(ground, box)
    async with held(ground, 2, idle_s=2) as new:
        same(new.lived, False)


@promise("outlives")
async def a_box_lives_while_it_is_held(ground: Ground) -> None:
    async with held(ground, idle_s=0.5) as box:
        await box.beat(30)
        job = await begun(box, "sleep 2; echo done")
        same((await ended(job), await written(job)), (0, "done\n"))


@promise("outlives")
async def a_box_whose_supervisor_was_killed_has_ended(ground: Ground) -> None:
    async with held(ground, idle_s=60) as box:
        job = await begun(box, "setsid sleep 600 & exec sleep 600")
        await ground.kill_supervisor(box.ref)
        with raises(BoxGone):
            await job.wait()
        with raises(BoxGone):
            await begun(box, "true")
        await nothing_left(ground, box)
    async with held(ground, 2, idle_s=60) as new:
        same(new.lived, False)
        same(await ran(new, "echo new"), (0, "new\n"))


@promise()
async def a_destroyed_box_is_gone_at_once(ground: Ground) -> None:
    provider = ground.provider()
    with raises((BoxError,)):
        async with held(ground, idle_s=60 if "outlives" in ground.abilities else 0) as box:
            await begun(box, "setsid sleep 600 & exec sleep 600")
            await provider.destroy(box.ref)
            await nothing_left(ground, box)
            same([one for one in await provider.list({}) if one.state == "running"], [])
            await provider.destroy(box.ref)
            await begun(box, "true")


@promise()
async def standing_boxes_are_listed_by_their_labels(ground: Ground) -> None:
    provider = ground.provider()
    spec = replace(ground.spec, labels={"tenant": "blue", "kind": "test"})
    async with held(ground, spec=spec) as box:
        [found] = await provider.list({"tenant": "blue"})
        same((found.name, dict(found.labels), found.state), (spec.name, dict(spec.labels), "running"))
        same(dict(found.ref), dict(box.ref))
        assert 0 <= found.age_s < 60, found.age_s
        same(list(await provider.list({"tenant": "red"})), [])


@promise("outlives")
async def a_box_is_found_by_its_ref(ground: Ground) -> None:
    spec = replace(ground.spec, idle_s=60)
    async with held(ground, 1, spec=spec, idle_s=60) as box:
        await begun(box, "exec sleep 600", job="one")
    async with ground.provider().attach(spec, 2, box.ref) as again:
        same(again.lived, True)
        assert await again.find("one") is not None
    await ground.provider().destroy(box.ref)
    async with ground.provider().attach(spec, 3, box.ref) as new:
        same(new.lived, False)


@promise("outlives")
async def what_a_holder_notes_the_next_one_is_told(ground: Ground) -> None:
    async with held(ground, idle_s=60) as box:
        same(box.noted, "")
        await box.note("one\n")
        await box.note("two\n")
    async with held(ground, 2, idle_s=60) as box:
        same(box.noted, "two\n")
    await ground.provider().destroy(box.ref)
    async with held(ground, 3, idle_s=60) as new:
        same(new.noted, "")
    await ground.provider().destroy(new.ref)


CASES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Case))
