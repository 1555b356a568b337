"""Files in a turn: what a call changes of the workspace lands with its outcome or not at all."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from outlast.adapter import Agent, Attempt, ModelAsk, Places, Send, ToolAsk, ToolResult, TurnResult
from outlast.adapters.assistant import Assistant
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.clock import ManualClock, SystemClock
from outlast.drive import Capture
from outlast.engine.load import load_state
from outlast.errors import BoxGone, WorkspaceError
from outlast.fold import SessionState, records_of
from outlast.gate import Point
from outlast.ids import blob_hash
from outlast.model import Answer, AssistantMessage, Request, Show, quiet
from outlast.records import AttemptEnded, CallOutcome, FilesKept
from outlast.session import Session
from outlast.squeezing import unsqueeze
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import ToolFailed, ToolIO, tool
from outlast.workspace import Stay
from outlast.workspace_tools import workspace_tools
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.paper import Paper, PaperSite, Scrap, files_of, on_paper
from tests.unit.engine_desk import Desk, records
from tests.unit.listed_model import Listed, says, texts, wants

DATA = Path("/nonexistent-data")


@pytest.fixture(autouse=True)
def _no_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes are made by the worker; these need none."""

    def none(places: Places, *, workspace: bool) -> None:
        pass

    monkeypatch.setattr("outlast.sites.make_places", none)


async def began(world: World, agent: Agent, *prompts: str, checkpoint: str = "call") -> Session:
    session = await Session.open(world, "s-1", agent=agent, workspace=Scrap(checkpoint))
    for number, prompt in enumerate(prompts or ("go",), 1):
        await session.send(prompt, id=f"in-{number}")
    return session


async def kept(world: World) -> dict[str, str]:
    """The files as the log has them."""
    state = await load_state(world, "s-1")

    async def get(names: Sequence[str]) -> dict[str, bytes]:
        return {name: unsqueeze(data) for name, data in (await world.get_many("s-1", names)).items()}

    return await files_of(state.tree.root, get)


async def works(world: World, agent: Agent, kind: Paper, clock: ManualClock | None = None) -> None:
    desk = Desk(world, clock or SystemClock(), surroundings=on_paper(world, kind, DATA))
    await desk.work(agent)
    if clock is not None:
        assert not any(isinstance(one, CallOutcome) for one in await records(world)), "it has failed"
        clock.turn(3600)
        await desk.work(agent)


def loop(*commands: str) -> LoopFunction:
    """Runs commands, one after the other."""

    async def run(io: IO, prompt: str) -> object:
        return [await io.tool("bash", command=one) for one in commands]

    return run


def coder(function: LoopFunction, *more: Any) -> Agent:
    return Agent("tester", Loop(function), tools=[*workspace_tools(), *more])


async def test_what_a_call_changes_lands_in_one_commit_with_its_outcome(world: World) -> None:
    kind = Paper()
    session = await began(world, coder(loop("append a 1", "append a 2", "cat a")))
    await works(world, coder(loop("append a 1", "append a 2", "cat a")), kind)
    assert (await session.result(1)).value == ["(no output)", "(no output)", "12"]
    assert await kept(world) == {"a": "12"}
    together = [
        [type(one).__name__ for one in of if isinstance(one, (FilesKept, CallOutcome))]
        for of in await commits(world)
    ]
    assert [of for of in together if of] == [["FilesKept", "CallOutcome"]] * 2 + [["CallOutcome"]]
    assert kind.captured == [one.root for one in await records(world) if isinstance(one, FilesKept)]


async def commits(world: World) -> list[list[Any]]:
    return [records_of("s-1", commit) for commit in await world.commits("s-1")]


async def life(
    world: World, agent: Agent, kind: Paper, name: str, death: Spot | None = None
) -> RecordingGate:
    mortal, record = MortalWorld(world), RecordingGate()
    kind.check = mortal.check
    gate = record if death is None else DeathGate(death, mortal, inner=record)
    desk = Desk(
        mortal,
        gate=gate,
        name=name,
        dead=frozenset({"w-1"}),
        surroundings=on_paper(mortal, kind, DATA),
    )
    with suppress(Killed):
        await desk.work(agent)
    return record


STEPS = ("append a 12\ncd src", "append b 34", "append b 56\nput c 78")
END = {"a": "12", "src/b": "3456", "src/c": "78"}
STAGES = [{}, {"a": "12"}, {"a": "12", "src/b": "34"}, END]


@pytest.mark.parametrize("programs", [False, True])
async def test_a_death_at_every_point_leaves_files_and_log_at_the_same_call(
    programs: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    agent = coder(loop(*STEPS))
    async with open_memory() as world:
        session = await began(world, agent)
        where = spots((await life(world, agent, Paper(programs), "w-1")).crossings)
        uncut = (await session.result(1)).value
        assert await kept(world) == END
    assert {spot.point for spot in where} >= {Point.BEFORE_CAPTURE, Point.AFTER_CAPTURE}
    assert {spot.policy for spot in where} == {"", "verify" if programs else "safe"}
    for spot in where:
        async with open_memory() as world:
            session = await began(world, agent)
            kind = Paper(programs)
            await life(world, agent, kind, "w-1", spot)
            state = await load_state(world, "s-1")
            assert await kept(world) == STAGES[_settled(state)], str(spot)
            await life(world, agent, kind, "w-2")
            assert await kept(world) == END, str(spot)
            assert (await session.result(1)).value == uncut, str(spot)
            if programs:
                assert max(kind.begun.values()) == 1, str(spot)


def _settled(state: SessionState) -> int:
    """Calls of the turn that have ended."""
    if state.turn is None:
        return 0 if state.last is None else len(STEPS)
    return sum(not call.open for call in state.turn.calls.values())


class Asked(Listed):
    """Answers by how far the conversation is, also one that asks the same again."""

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        done = sum(isinstance(message, AssistantMessage) for message in request.messages)
        self.requests = [request] * done
        return await super().ask(request, show)


async def test_an_assistant_whose_tools_run_at_once_changes_files_one_call_at_a_time() -> None:
    def model() -> Asked:
        both = [
            wants("bash", command="append a 1"),
            wants("write", path="b", content="2222"),
            wants("bash", command="append a 3"),
        ]
        return Asked(says("I write.", *both), says("", wants("read", path="a")), says("Written."))

    def agent(of: Listed) -> Agent:
        return Agent("tester", Assistant(of), tools=workspace_tools())

    async with open_memory() as world:
        first = agent(model())
        await began(world, first)
        where = spots((await life(world, first, Paper(), "w-1")).crossings)
        assert await kept(world) == {"a": "13", "b": "2222"}
        together = [
            [type(one).__name__ for one in of if isinstance(one, FilesKept)] for of in await commits(world)
        ]
        assert [len(of) for of in together if of] == [1, 1, 1]
    for spot in where:
        async with open_memory() as world:
            of = model()
            dying = agent(of)
            session = await began(world, dying)
            await life(world, dying, Paper(), "w-1", spot)
            assert all("half" not in text for text in (await kept(world)).values()), str(spot)
            await life(world, dying, Paper(), "w-2")
            assert await kept(world) == {"a": "13", "b": "2222"}, str(spot)
            assert (await session.result(1)).value == "Written.", str(spot)
            assert "     1\t13" in texts(of.requests[-1]), str(spot)


@pytest.mark.parametrize("how", ["fails", "raises", "is overdue"])
async def test_a_call_that_ends_as_an_error_keeps_what_it_changed_all_the_same(
    world: World, how: str
) -> None:
    async def spoil(io: ToolIO) -> str:
        """Spoil."""
        await io.workspace.files.write("a", b"spoilt")
        if how == "fails":
            raise ToolFailed("no")
        if how == "raises":
            raise ValueError("no")
        await asyncio.sleep(30)
        return "late"

    made = tool(timeout_s=0.05 if how == "is overdue" else 60.0)(spoil)

    async def run(io: IO, prompt: str) -> object:
        return (await io.result("spoil", {})).status

    session = await began(world, coder(run, made))
    await works(world, coder(run, made), Paper())
    assert (await session.result(1)).value == "error"
    assert await kept(world) == {"a": "spoilt"}


async def test_what_cannot_be_written_down_ends_the_attempt_and_the_next_begins_from_the_log(
    world: World, clock: ManualClock
) -> None:
    kind = Paper(trouble=[WorkspaceError(detail="The disk is full.")])
    agent = coder(loop("append a 1"))
    session = await began(world, agent)
    await works(world, agent, kind, clock)
    (ended,) = [one for one in await records(world) if isinstance(one, AttemptEnded)]
    assert (ended.why, ended.error) == ("failed", "The disk is full.")
    assert len([one for one in await records(world) if isinstance(one, CallOutcome)]) == 1
    assert (await session.result(1)).status == "done"
    assert await kept(world) == {"a": "1"}


async def test_a_machine_that_is_gone_ends_the_attempt_and_nobody_says_that_the_command_ran(
    world: World, clock: ManualClock
) -> None:
    kind = Paper(programs=True)

    def gone() -> None:
        kind.check = lambda: None
        raise BoxGone(box="b", reason="somebody killed it")

    kind.check = gone
    agent = coder(loop("append a 1"))
    session = await began(world, agent)
    await works(world, agent, kind, clock)
    assert [one.why for one in await records(world) if isinstance(one, AttemptEnded)] == ["failed"]
    assert (await session.result(1)).status == "done"
    assert await kept(world) == {"a": "1"}


async def test_a_session_without_a_workspace_says_so_to_whoever_wants_one(world: World) -> None:
    agent = coder(loop("append a 1"))
    session = await Session.open(world, "s-1", agent=agent)
    await session.send("go")
    await Desk(world).work(agent)
    outcome = await session.result(1)
    assert outcome.status == "failed"
    assert "has no workspace" in outcome.error
    assert "workspace=virtual()" in outcome.error


async def test_a_kind_that_is_not_installed_is_named(world: World) -> None:
    agent = coder(loop("append a 1"))
    await began(world, agent)
    await Desk(world, surroundings=on_paper(world, None, DATA)).work(agent)
    (ended,) = [one for one in await records(world) if isinstance(one, AttemptEnded)]
    assert "of the kind 'paper', which this installation does not have" in ended.error


@pytest.mark.parametrize("checkpoint", ["turn", "off"])
async def test_files_are_kept_when_a_turn_begins_and_ends_or_never(world: World, checkpoint: str) -> None:
    agent = coder(loop("append a 1", "append a 2"))
    kind = Paper(programs=True, machine={"mine": "before"})
    session = await began(world, agent, "go", checkpoint=checkpoint)
    await works(world, agent, kind)
    assert kind.machine is not None
    kind.machine["mine"] = "changed by hand"
    await session.send("again", id="in-2")
    await works(world, agent, kind)
    found = [(one.why, one.turn) for one in await records(world) if isinstance(one, FilesKept)]
    if checkpoint == "off":
        assert found == []
        return
    assert found == [("begin", 1), ("end", 1), ("begin", 2), ("end", 2)]
    assert await kept(world) == {"a": "1212", "mine": "changed by hand"}
    state = await load_state(world, "s-1")
    roots = [one.root for one in await records(world) if isinstance(one, FilesKept)]
    assert state.began == {1: roots[0], 2: roots[2]}


async def test_wherever_a_worker_dies_the_beginning_of_a_turn_is_the_files_before_it_or_not_known() -> None:
    """Never empty: whoever undoes the turn would be left with nothing."""
    agent = coder(loop("append a 1", "append mine 2"))
    async with open_memory() as world:
        await began(world, agent, checkpoint="turn")
        first = Paper(programs=True, machine={"mine": "before"})
        where = spots((await life(world, agent, first, "w-1")).crossings)
    assert {spot.point for spot in where} >= {Point.TURN_OPENED, Point.BEFORE_CAPTURE, Point.AFTER_CAPTURE}
    for spot in where:
        async with open_memory() as world:
            await began(world, agent, checkpoint="turn")
            kind = Paper(programs=True, machine={"mine": "before"})
            await life(world, agent, kind, "w-1", spot)
            await life(world, agent, kind, "w-2")
            state = await load_state(world, "s-1")
            assert await kept(world) == {"a": "1", "mine": "before2"}, str(spot)
            root = state.began[1]
            found = await world.get_many("s-1", [root])
            assert msgspec.json.decode(unsqueeze(found[root])) == {"mine": "before"}, str(spot)


async def test_of_a_turn_whose_beginning_was_not_kept_nobody_says_that_it_began_with_nothing(
    world: World,
) -> None:
    class Later(Paper):
        """Too large for it, until a turn has made it smaller."""

        def __init__(self) -> None:
            super().__init__(programs=True, machine={"mine": "before"})
            self.small = False

        @asynccontextmanager
        async def open(self, reference: Mapping[str, Any], stay: Stay) -> AsyncGenerator[PaperSite]:
            kind = self

            class Site(PaperSite):
                async def capture(self) -> Capture:
                    if kind.small:
                        return await super().capture()
                    kind.small = True
                    return cast("Capture", None)

            async with super().open(reference, stay) as site:
                yield Site(self, stay, site.texts)

    agent = coder(loop("append a 1"))
    await began(world, agent, checkpoint="turn")
    await works(world, agent, Later())
    state = await load_state(world, "s-1")
    assert await kept(world) == {"a": "1", "mine": "before"}
    assert state.began == {}


async def test_a_capture_that_is_large_lands_in_several_commits_before_its_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.engine.files.AHEAD", 10)
    agent = coder(loop("append a 1"))
    await began(world, agent)
    packs = tuple(f"pack {number} of some".encode() for number in range(5))
    await works(world, agent, Paper(padding=packs))
    found = await world.get_many("s-1", [blob_hash("default", pack) for pack in packs])
    assert sorted(found.values()) == sorted(packs)
    ahead = [commit for commit in await world.commits("s-1") if commit.header.events == 0]
    assert len(ahead) >= 4
    assert await kept(world) == {"a": "1"}


async def test_a_call_of_the_harness_that_is_reported_twice_at_once_ends_once(world: World) -> None:
    class Twice(Scripted):
        """Reports what its tools did twice, and two of them at once."""

        async def advance(self, attempt: Attempt) -> TurnResult:
            opening = await attempt.calls.open_model(ModelAsk("main", "m", "match", {}, ["go"]))
            assert isinstance(opening, Send)
            asks = [ToolAsk(name, "act", {}) for name in ("a", "b")]
            await attempt.calls.settle_model(opening.call, {"text": "I act."}, asks, None)
            for ask in asks:
                await attempt.calls.start_tool(ask.harness_id, "act", {})
            kind.machine = {"a": "1"}
            ended = [attempt.calls.settle_tool(name, ToolResult("ok", name)) for name in ("a", "b", "a", "b")]
            await asyncio.gather(*ended)
            return TurnResult("done")

    async def act(arguments: Mapping[str, Any]) -> str:
        return "acted"

    kind = Paper(programs=True, machine={})
    agent = Agent("tester", Twice(built_ins={"act": BuiltIn(act)}))
    session = await began(world, agent)
    await works(world, agent, kind)
    assert (await session.result(1)).status == "done"
    ended = [one.call for one in await records(world) if isinstance(one, CallOutcome)]
    assert sorted(ended) == [1, 2, 3]
    roots = [one.root for one in await records(world) if isinstance(one, FilesKept)]
    assert roots == list(dict.fromkeys(roots)), "no root comes back that was gone"
