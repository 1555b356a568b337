"""What is promised of commands."""

import time
from typing import Final

import anyio

from outlast.testing.workspace_contract.case import Case, Stand, promise
from outlast.workspace import OUTPUT_LIMIT, Command, Ran, Site

BOUND_S: Final = 15.0
"""What was told to end, or has nothing to do, is over after so many seconds on any machine."""
ENDLESS: Final = "while :; do :; done"


@promise()
async def a_command_says_both_streams_and_its_status(stand: Stand) -> None:
    async with stand.site() as site:
        ran = await stand.run(site, "echo out; echo err >&2; exit 3")
        assert ran == Ran(3, "out\n", "err\n")
        ran = await stand.run(site, "true | false; printf é")
        assert ran == Ran(0, "é", "")


@promise()
async def a_command_that_is_no_shell_text_fails_and_says_why(stand: Stand) -> None:
    async with stand.site() as site:
        for text in ("if", "echo 'open", "no-such-command-anywhere"):
            ran = await stand.run(site, text)
            assert ran.status != 0, text
            assert ran.stderr, text


@promise()
async def commands_and_files_see_the_same(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/in", b"two\none\n")
        assert await stand.said(site, "sort d/in | tee d/out") == "one\ntwo\n"
        assert await site.files.read("d/out") == b"one\ntwo\n"
        await stand.said(site, "rm d/in; mkdir -p e/f; chmod 750 d/out")
        assert await site.files.find("d/in") is None
        out, made = await site.files.find("d/out"), await site.files.find("e/f")
        assert out is not None
        assert out.mode == 0o750
        assert made is not None


@promise()
async def a_command_runs_where_it_is_told_to(stand: Stand) -> None:
    async with stand.site() as site:
        await site.files.write("d/file", b"")
        assert (await stand.said(site, "pwd")).strip() == site.cwd
        ran = await site.run(Command("pwd; ls", "below", cwd="d"))
        assert ran == Ran(0, f"{site.cwd}/d\nfile\n", "")
        assert (await stand.said(site, "pwd")).strip() == site.cwd


@promise()
async def the_environment_of_a_command_is_for_it_alone(stand: Stand) -> None:
    text = 'echo "[$OUTLAST_CASE]"; sh -c \'echo "[$OUTLAST_CASE]"\''
    async with stand.site() as site:
        ran = await site.run(Command(text, "with", env={"OUTLAST_CASE": 'it\'s "one"\n$two'}))
        assert ran.stdout == '[it\'s "one"\n$two]\n' * 2, ran
        assert await stand.said(site, text) == "[]\n[]\n"


@promise()
async def a_command_of_one_name_is_begun_once(stand: Stand) -> None:
    async with stand.site() as site:
        first = await stand.run(site, "echo begun >> log; cat log; exit 7", job="one")
        again = await stand.run(site, "echo begun >> log; cat log; exit 7", job="one")
        assert first == again == Ran(7, "begun\n", "")
        other = await stand.run(site, "echo begun >> log; cat log; exit 7", job="other")
        assert other.stdout == "begun\nbegun\n"


@promise()
async def who_asks_for_a_command_that_still_runs_gets_its_end(stand: Stand) -> None:
    async with stand.site() as site:
        ended: list[Ran] = []

        async def ask() -> None:
            ended.append(await stand.run(site, "echo begun >> log; sleep 0.5; cat log", job="one"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        assert ended == [Ran(0, "begun\n", "")] * 2


@promise()
async def a_site_knows_the_commands_that_were_begun_in_it(stand: Stand) -> None:
    async with stand.site() as site:
        await stand.run(site, "false", job="one")
        assert await site.knows("one") is True
        assert not await site.knows("other")


@promise()
async def a_command_that_reads_finds_nothing(stand: Stand) -> None:
    async with stand.site() as site:
        with anyio.fail_after(BOUND_S):
            assert (await stand.run(site, "cat; read line; echo over")).stdout == "over\n"


@promise()
async def long_output_is_cut_in_the_middle_and_says_so(stand: Stand) -> None:
    lines = 60_000
    async with stand.site() as site:
        ran = await stand.run(
            site, f"i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; done; echo end >&2"
        )
    whole = "".join(f"line {number}\n" for number in range(1, lines + 1))
    assert ran.stdout.startswith("line 1\nline 2\n")
    assert ran.stdout.endswith(f"line {lines}\n")
    assert len(ran.stdout) <= OUTPUT_LIMIT + 200
    assert ran.cut >= len(whole) - OUTPUT_LIMIT
    assert f"{ran.cut:,}" in ran.stdout, "what is left out is told where it is left out"
    assert ran.stderr == "end\n"


@promise()
async def output_is_shown_while_the_command_runs(stand: Stand) -> None:
    shown: list[str] = []
    early = anyio.Event()

    def show(text: str) -> None:
        shown.append(text)
        early.set()

    async with stand.site() as site:
        ended = anyio.Event()

        async def run() -> None:
            await site.run(Command("echo first; sleep 2; echo second >&2", "shown", show=show))
            ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(BOUND_S):
                await early.wait()
            assert not ended.is_set()
    assert "".join(shown) == "first\nsecond\n"


@promise()
async def a_command_is_ended_when_its_time_is_over(stand: Stand) -> None:
    async with stand.site() as site:
        for text in (
            f"echo began; {ENDLESS}",
            "echo began; sleep 1000",
            "echo began; (sleep 1000 | cat) & wait",
        ):
            began = time.monotonic()
            ran = await stand.run(site, text, timeout_s=1.0)
            assert time.monotonic() - began < BOUND_S, text
            assert ran.timed_out, ran
            assert ran.status != 0, ran
            assert ran.stdout == "began\n", ran
        assert await stand.said(site, "echo it goes on") == "it goes on\n"


@promise()
async def a_command_whose_call_is_cancelled_ends(stand: Stand) -> None:
    async with stand.site() as site:
        for text in (ENDLESS, "sleep 1000"):
            began = time.monotonic()
            with anyio.move_on_after(0.5):
                await stand.run(site, f"while :; do echo x >> ticks; sleep 0.05; done & {text}")
            assert time.monotonic() - began < BOUND_S, text
            assert await _stands_still(stand, site)
        assert await stand.said(site, "echo it goes on") == "it goes on\n"


@promise("rolls-back")
async def a_command_that_was_cut_short_has_changed_nothing(stand: Stand) -> None:
    async with stand.site() as site:
        await stand.said(site, "echo before > file; mkdir d; echo kept > d/kept")
        text = "echo after > file; rm -r d; echo new > new; cd /; "
        ran = await stand.run(site, text + ENDLESS, timeout_s=1.0)
        assert ran.timed_out
        await _is_as_before(stand, site)
        with anyio.move_on_after(0.5):
            await stand.run(site, text + ENDLESS)
        await _is_as_before(stand, site)


@promise("remembers")
async def a_shell_remembers_from_one_command_to_the_next(stand: Stand) -> None:
    async with stand.site() as site:
        await stand.said(
            site, "mkdir d; cd d; export A='1 \"2\"'; B=$'x\\ny'; f() { echo \"f $1 $A\"; }; arr=(a 'b c')"
        )
        said = await stand.said(site, 'pwd; f "$B"; echo "${arr[1]}"; sh -c \'echo "$A$B"\'')
        assert said == f'{site.cwd}/d\nf x\ny 1 "2"\nb c\n1 "2"\n'


async def _is_as_before(stand: Stand, site: Site) -> None:
    assert await stand.said(site, "cat file d/kept; ls") == "before\nkept\nd\nfile\n"


async def _stands_still(stand: Stand, site: Site) -> bool:
    """Nothing writes any more to the file that a command left."""
    count = "cat ticks 2>/dev/null | wc -l"
    before = await stand.said(site, count)
    return await stand.said(site, f"sleep 0.3; {count}") == before


CASES: Final[tuple[Case, ...]] = (
    a_command_says_both_streams_and_its_status,
    a_command_that_is_no_shell_text_fails_and_says_why,
    commands_and_files_see_the_same,
    a_command_runs_where_it_is_told_to,
    the_environment_of_a_command_is_for_it_alone,
    a_command_of_one_name_is_begun_once,
    who_asks_for_a_command_that_still_runs_gets_its_end,
    a_site_knows_the_commands_that_were_begun_in_it,
    a_command_that_reads_finds_nothing,
    long_output_is_cut_in_the_middle_and_says_so,
    output_is_shown_while_the_command_runs,
    a_command_is_ended_when_its_time_is_over,
    a_command_whose_call_is_cancelled_ends,
    a_command_that_was_cut_short_has_changed_nothing,
    a_shell_remembers_from_one_command_to_the_next,
)
