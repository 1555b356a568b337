"""Sessions in a virtual workspace, with the shell's real process under a worker's supervision."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.assistant import Assistant
from outlast.engine.attempt import Surroundings
from outlast.errors import BadInput, WorkspaceError
from outlast.fold import SessionState
from outlast.session import Session
from outlast.sites import Ground
from outlast.testing.workspace_contract import Log
from outlast.workspace import Command, Note, Site
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.virtual import VirtualKind, virtual
from outlast.workspaces.virtual.description import Virtual
from outlast.worlds.memory import open_memory
from tests.stays import NoPacks, stay_at, supervised
from tests.unit.engine_desk import Desk
from tests.unit.listed_model import Listed, says, texts, wants

pytestmark = pytest.mark.crash

LOOK = "cat count 2>/dev/null; ls; echo $KEPT"
ADD = "echo one >> count; export KEPT=yes"


@asynccontextmanager
async def opened(directory: Path, workspace: Virtual, log: Log | None = None) -> AsyncGenerator[Site]:
    log = log or Log()
    async with supervised(directory) as processes:
        stay = stay_at(directory, processes, root=log.root, aside=log.aside, packs=log)
        async with VirtualKind().open(workspace.reference(), stay) as site:
            yield site


async def said_in_two_turns(workspace: Virtual, directory: Path) -> list[str]:
    """What the model is told by the shell, in a turn that writes and in the next, which looks."""
    model = Listed(
        says("", wants("bash", command=ADD)),
        says("", wants("bash", command=LOOK)),
        says("written"),
        says("", wants("bash", command=LOOK)),
        says("seen"),
    )
    agent = Agent("coder", Assistant(model), tools=workspace_tools(), workspace=workspace)
    async with open_memory() as world, supervised(directory) as processes:
        ground = Ground(directory, cast("Gateway", None), processes, 60.0)

        @asynccontextmanager
        async def surroundings(state: SessionState, agent: Agent, note: Note) -> AsyncGenerator[Surroundings]:
            async with ground.open(world, state, agent, note) as around:
                yield around

        session = await Session.open(world, "s-1", agent=agent, workspace=workspace)
        for number in (1, 2):
            await session.send("go", id=f"in-{number}")
            await Desk(world, surroundings=surroundings).work(agent)
            assert (await session.result(number)).status == "done"
    return [texts(request)[-1] for request in model.requests if texts(request)[-1:] != ["go"]]


async def test_a_durable_workspace_is_there_in_the_next_turn(tmp_path: Path) -> None:
    _, first, second = await said_in_two_turns(virtual({"given": "x"}), tmp_path)
    assert first == second
    assert "one\ncount\ngiven\nyes" in second


async def test_one_that_is_not_durable_is_empty_again_when_the_turn_ends(tmp_path: Path) -> None:
    _, first, second = await said_in_two_turns(virtual({"given": "x"}, durable=False), tmp_path)
    assert "one\ncount\ngiven\nyes" in first
    assert "count" not in second
    assert "given" in second


async def test_initial_files_are_there_once(tmp_path: Path) -> None:
    log, workspace = Log(), virtual({"docs/plan.md": "# Plan\n", "raw": b"\xff"})
    async with opened(tmp_path, workspace, log) as site:
        assert await site.files.read("docs/plan.md") == b"# Plan\n"
        assert await site.files.read("raw") == b"\xff"
        await site.files.remove("docs")
        await log.commit(site)
    async with opened(tmp_path, workspace, log) as site:
        assert [entry.path for entry in await site.files.list("")] == ["raw"]
        await site.files.remove("raw")
        await log.commit(site)
    async with opened(tmp_path, workspace, log) as site:
        assert list(await site.files.list("")) == []


async def test_a_limit_of_the_shell_is_an_error_and_nothing_else_is(tmp_path: Path) -> None:
    async with opened(tmp_path, virtual()) as site:
        ran = await site.run(Command("seq 10000000 | tail -1", "one"))
        assert ran.status == 1
        assert ran.stdout == "100000\n"
        assert "virtual: a command reached a limit" in ran.stderr
        ran = await site.run(Command("seq 100 | tail -1", "two"))
        assert (ran.status, ran.stdout, ran.stderr) == (0, "100\n", "")


async def test_what_was_outside_the_workspace_is_missed_aloud(tmp_path: Path) -> None:
    log = Log()
    async with opened(tmp_path, virtual(), log) as site:
        await site.run(Command("echo x > /tmp/one; echo y > two", "first"))
        assert (await site.run(Command("cat /tmp/one two", "second"))).stdout == "x\ny\n"
        await log.commit(site)
    async with opened(tmp_path, virtual(), log) as site:
        ran = await site.run(Command("cat /tmp/one two", "third"))
        assert ran.stdout == "y\n"
        assert "what it had outside of /workspace is gone, 1 files" in ran.stderr
        assert (await site.run(Command("cat two", "fourth"))).stderr == ""


async def test_a_shell_that_redirected_itself_is_heard_again(tmp_path: Path) -> None:
    async with opened(tmp_path, virtual()) as site:
        assert (await site.run(Command("exec > log 2>&1; echo within", "one"))).stdout == ""
        assert (await site.run(Command("echo heard; cat log", "two"))).stdout == "heard\nwithin\n"


async def test_variables_that_are_too_long_are_left_out_and_named(tmp_path: Path) -> None:
    log = Log()
    async with opened(tmp_path, virtual(), log) as site:
        ran = await site.run(
            Command("printf -v LONG '%099999d' 1; SHORT=kept; LONG=$LONG$LONG$LONG$LONG", "one")
        )
        ran = await site.run(Command("LONG=$(seq 20000); SHORT=kept", "two"))
        assert "too long to be remembered beyond this shell: $LONG" in ran.stderr
        await log.commit(site)
    async with opened(tmp_path, virtual(), log) as site:
        assert (await site.run(Command('echo "[$LONG]" $SHORT', "three"))).stdout == "[] kept\n"


async def test_a_reference_that_cannot_be_read_opens_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as processes:
        for reference in ({"files": {"a": "not base 64!"}}, {"memory_bytes": "much"}):
            with pytest.raises(BadInput, match="cannot be read"):
                async with VirtualKind().open(reference, stay_at(tmp_path, processes)):
                    pass


async def test_packs_that_are_gone_are_an_error_and_the_next_attempt_finds_them(tmp_path: Path) -> None:
    log = Log()
    async with opened(tmp_path, virtual(), log) as site:
        await site.files.write("file", b"x")
        await log.commit(site)
    async with supervised(tmp_path) as processes:
        stay = stay_at(tmp_path, processes, root=log.root, aside=log.aside, packs=NoPacks())
        async with VirtualKind().open(virtual().reference(), stay) as site:
            with pytest.raises(WorkspaceError, match="Give the store back"):
                await site.files.read("file")
    async with opened(tmp_path, virtual(), log) as site:
        assert await site.files.read("file") == b"x"


async def test_what_is_too_much_is_refused_and_says_how_much_may_be(tmp_path: Path) -> None:
    million = "$(printf '%0999999d' 1)"
    async with opened(tmp_path, virtual()) as site:
        with pytest.raises(WorkspaceError, match="more than the 10,000,000"):
            await site.files.write("large", b"x" * 10_000_001)
        assert await site.files.find("large") is None
        await site.files.write("large", b"x" * 10_000_000)
        ran = await site.run(Command(f"x={million}; for i in 1 2; do echo $x; done >> large", "one"))
        assert "file too large" in ran.stderr
        assert len(await site.files.read("large")) == 10_000_000
        for number in range(9):
            await site.files.write(f"more/{number}", b"y" * 9_990_000)
        with pytest.raises(WorkspaceError, match="100000000"):
            await site.files.write("more/last", b"z" * 9_990_000)
        assert await site.files.find("more/last") is None
        capture = await site.capture()
        assert capture is not None
        assert sum(map(len, capture.packs.values())) < 200_000


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_ten_thousand_files_are_kept_and_come_back(tmp_path: Path) -> None:
    log, made = Log(), 9_900
    text = f"for i in $(seq {made}); do d=$((i % 97)); [ -d $d ] || mkdir $d; echo $i > $d/$i || break; done"
    async with opened(tmp_path, virtual(), log) as site:
        assert (await site.run(Command(text, "one", timeout_s=300.0))).status == 0
        await log.commit(site)
        ran = await site.run(Command("for i in $(seq 200); do echo x > more$i || break; done", "two"))
        assert "too many files" in ran.stderr
    async with opened(tmp_path, virtual(), log) as site:
        counted = await site.run(Command("find . -type f | wc -l; cat 5/5", "three", timeout_s=300.0))
        assert counted.stdout == f"{made}\n5\n"


async def test_what_is_no_file_is_refused_and_the_shell_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path, virtual()) as site:
        await site.run(Command("mkfifo pipe; echo x > file", "one"))
        with pytest.raises(WorkspaceError):
            await site.files.read("pipe")
        assert [entry.path for entry in await site.files.list("")] == ["file"]
        assert (await site.run(Command("cat file", "two"))).stderr == ""


async def test_links_that_no_tree_can_have_are_removed_and_told(tmp_path: Path) -> None:
    """The interpreter lets one lead to nothing; whatever is in the workspace must be written down with the call."""
    log = Log()
    async with opened(tmp_path, virtual(), log) as site:
        ran = await site.run(Command("ln -s '' empty; ln -s file good; mkdir d; ln -s '' d/other", "job"))
        assert ran.status == 1
        assert "virtual: removed what no link can be, for where it leads: d/other, empty." in ran.stderr
        await log.commit(site)
        ran = await site.run(Command("find . | sort; ln -sf '' good", "job.2"))
        assert ran.stdout == ".\n./d\n./good\n"
        await log.commit(site)
    async with opened(tmp_path, virtual(), log) as site:
        assert (await site.run(Command("find . | sort", "job.3"))).stdout == ".\n./d\n"


async def test_what_devices_give_is_as_much_as_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path, virtual()) as site:
        texts = ("head -c 2M /dev/zero", "cat /dev/urandom", "dd if=/dev/urandom bs=1M count=2 2> errors")
        counts = [
            (await site.run(Command(f"{text} | wc -c", f"job.{at}"))).stdout for at, text in enumerate(texts)
        ]
    assert [int(count) for count in counts] == [1024**2, 8192, 2 * 1024**2]
