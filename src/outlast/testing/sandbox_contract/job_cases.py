"""Jobs: begun once, their output kept, their trees ended whole."""

from typing import Final

import anyio

from outlast.errors import BoxError
from outlast.sandbox import JobAsk, Left
from outlast.testing.sandbox_contract.blocks import (
    SOON_S,
    begun,
    ended,
    held,
    limited,
    raises,
    ran,
    same,
    until,
    written,
    written_so_far,
)
from outlast.testing.sandbox_contract.case import Case, Ground, promise

_KB: Final = 1024


@promise()
async def a_job_runs_to_its_end_and_its_output_is_kept(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "echo out; echo err >&2; exit 7")
        same(await ended(job), 7)
        same((await written(job), await written(job, "stderr")), ("out\n", "err\n"))
        same((await written(job), await ended(job)), ("out\n", 7))


@promise()
async def a_job_begun_twice_under_one_name_runs_once(ground: Ground) -> None:
    async with held(ground) as box:
        for _ in range(3):
            same(await ended(await begun(box, "echo run; exit 3", job="once")), 3)
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(begun_again, box)
        found = await box.find("once-more")
        assert found is not None
        same(await written(found), "run\n")


async def begun_again(box: object) -> None:
    await ended(await begun(box, "echo run", job="once-more"))  # pyright: ignore[reportArgumentType] - a box


@promise()
async def a_dropped_job_is_dead_and_its_name_stays_taken(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "echo $$; exec sleep 600", job="dropped")
        pid = (await written_so_far(job, "\n")).strip()
        await box.drop("dropped")
        same((await ran(box, f"kill -0 {pid}"))[0], 1)
        same(await box.find("dropped"), None)
        with raises(BoxError):
            await begun(box, "echo again", job="dropped")
        await box.drop("dropped")


@promise()
async def a_program_that_cannot_start_is_an_error_and_leaves_its_name_free(ground: Ground) -> None:
    async with held(ground) as box:
        with raises(BoxError) as error:
            await box.begin(JobAsk("none", ["no-such-program"]))
        assert "no-such-program" in error.said, error.said
        with raises(BoxError):
            await box.begin(JobAsk("none", ["true"], cwd="no/such/directory"))
        same(await box.find("none"), None)
        same(await ended(await box.begin(JobAsk("none", ["true"]))), 0)


@promise()
async def output_is_read_on_from_any_offset_while_it_grows(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "read x; seq 1 1000; echo $x", stdin=True)
        await job.write(b"end\n")
        same(await ended(job), 0)
        whole = await written(job)
        same(whole.splitlines(), [*map(str, range(1, 1001)), "end"])
        for offset in (1, 777, len(whole) - 1, len(whole)):
            same(await written(job, offset=offset), whole[offset:])


@promise()
async def output_past_its_limit_is_dropped_at_its_head_and_says_so(ground: Ground) -> None:
    limit = 256 * _KB
    async with held(ground, spec=limited(ground, output_bytes=limit)) as box:
        job = await begun(box, "seq 1 200000")
        same(await ended(job), 0)
        whole = "".join(f"{number}\n" for number in range(1, 200_001))
        pieces = [(at, piece) async for at, piece in job.output("stdout")]
        first = pieces[0][0]
        assert len(whole) - 2 * limit <= first <= len(whole) - limit, f"{first} of {len(whole)}"
        same(b"".join(piece for _, piece in pieces).decode(), whole[first:])


@promise()
async def a_job_reads_what_it_is_given_and_then_an_end(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "cat", stdin=True)
        text = b"0123456789" * 100_000
        await job.write(b"first\n")
        await job.write(text)
        await job.close_stdin()
        same(await ended(job), 0)
        same(await written(job), "first\n" + text.decode())
        with raises(BoxError):
            await job.write(b"late")


@promise()
async def a_job_that_is_given_nothing_reads_an_end(ground: Ground) -> None:
    async with held(ground) as box:
        same(await ran(box, "cat; echo done"), (0, "done\n"))


@promise()
async def a_signal_reaches_the_whole_tree(ground: Ground) -> None:
    async with held(ground) as box:
        inner = "trap 'echo inner; exit 0' TERM; echo up; while :; do sleep 0.1; done"
        line = f"trap 'echo outer; exit 5' TERM; ({inner}) & wait"
        job = await begun(box, line)
        await written_so_far(job, "up\n")
        await job.signal(15)
        same(await ended(job), 5)
        same(sorted((await written(job)).split()), ["inner", "outer", "up"])
        await job.signal(15)


@promise()
async def a_job_has_ended_when_all_of_its_tree_has(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "setsid sh -c 'sleep 1; echo late' & exit 4")
        same(await ended(job), 4)
        same(await written(job), "late\n")


@promise()
async def a_job_says_how_its_command_ended_while_its_tree_goes_on(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "(sleep 1; echo late) & echo now; echo err >&2; exit 4")
        with anyio.fail_after(SOON_S):
            left = await job.left()
            same(left, Left(4, len("now\n"), len("err\n")))
            same(await ended(job), 4)
            same(await written(job), "now\nlate\n")
            same(await job.left(), left)
            same(
                await (await begun(box, "exec sleep 600", timeout_s=0.5)).left(),
                Left(124, 0, 0, timed_out=True),
            )
            same(await (await begun(box, "exit 124")).left(), Left(124, 0, 0))
            same((await (await begun(box, "kill -9 $PPID; sleep 600")).left()).status != 0, True)


@promise()
async def a_job_past_its_time_is_killed_with_all_of_its_tree(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "setsid sleep 600 & echo $!; sleep 600", timeout_s=0.5)
        same(await ended(job), 124)
        pid = (await written(job)).strip()
        same((await ran(box, f"kill -0 {pid}"))[0], 1)


@promise()
async def a_job_that_a_signal_ended_says_which(ground: Ground) -> None:
    async with held(ground) as box:
        same(await ended(await begun(box, "kill -9 $$")), 137)
        job = await begun(box, "exec sleep 600")
        await job.signal(9)
        same(await ended(job), 137)


@promise()
async def a_merged_job_writes_one_output_in_order(ground: Ground) -> None:
    async with held(ground) as box:
        line = "echo a; echo b >&2; echo c; echo d >&2"
        job = await box.begin(JobAsk("merged", ["sh", "-c", line], merged=True))
        same(await ended(job), 0)
        same((await written(job), await written(job, "stderr")), ("a\nb\nc\nd\n", ""))


@promise()
async def jobs_that_run_and_are_not_tied_are_named_and_can_be_tied(ground: Ground) -> None:
    async with held(ground) as box:
        await begun(box, "exec sleep 600", job="loose")
        await ended(await begun(box, "true", job="over"))
        await begun(box, "exec sleep 600", job="bound", tied=True)
        same(list(await box.loose()), ["loose"])
        timed = await begun(box, "sleep 4; echo late", job="timed", timeout_s=3)
        for name in ("timed", "loose", "over", "none"):
            await box.tie(name)
        same(list(await box.loose()), [])
        same((await ended(timed), await written(timed)), (0, "late\n"))
        await box.tie("timed", kept=False)
        await box.tie("bound", kept=False)
        same((await box.find("timed"), await box.find("bound") is None), (None, False))


@promise()
async def what_a_job_leaves_by_killing_its_keeper_dies(ground: Ground) -> None:
    async with held(ground) as box:
        job = await begun(box, "setsid sleep 600 & echo $!; kill -9 $PPID; sleep 600")
        assert await ended(job) != 0
        pid = (await written(job)).strip()

        async def dead() -> bool:
            return (await ran(box, f"kill -0 {pid}"))[0] == 1

        await until(dead, "the process is dead")


@promise()
async def jobs_run_beside_one_another(ground: Ground) -> None:
    async with held(ground) as box:
        jobs = [await begun(box, f"read x; echo {number}", stdin=True) for number in range(12)]
        for job in reversed(jobs):
            await job.write(b"\n")
        same([int(await written(job)) for job in jobs], list(range(12)))


@promise()
async def a_job_has_the_environment_and_directory_that_it_was_given(ground: Ground) -> None:
    async with held(ground) as box:
        same(await ran(box, "pwd"), (0, f"{ground.spec.cwd}\n"))
        same(await ran(box, "mkdir -p sub; echo $COLOUR", {"COLOUR": "blue"}), (0, "blue\n"))
        job = await box.begin(JobAsk("below", ["sh", "-c", "pwd"], cwd="sub"))
        same(await written(job), f"{ground.spec.cwd}/sub\n")


@promise()
async def what_is_written_to_the_directory_for_such_can_be_run(ground: Ground) -> None:
    async with held(ground) as box:
        await box.write("/tmp/it", b"#!/bin/sh\necho ran\n", mode=0o755)  # noqa: S108 - of the box
        same(await ran(box, "/tmp/it"), (0, "ran\n"))  # noqa: S108 - of the box


CASES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Case))
