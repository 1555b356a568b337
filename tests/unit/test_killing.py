"""An agent that is killed at every point shows what it keeps, and one that keeps nothing is found out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from outlast.adapter import Agent, Attempt, TurnResult
from outlast.adapters.assistant import Assistant
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.adapters.scripted import Scripted
from outlast.clock import Clock, ManualClock
from outlast.errors import BadInput
from outlast.model import Answer, Request, Show, ToolMessage, quiet
from outlast.session import Session
from outlast.testing import killing
from outlast.testing.faults import AroundWorld
from outlast.testing.killing import Cut, KillEverywhere, OpenWorld, in_memory
from outlast.tool import Done, NotDone, Tool, ToolIO, TryAgain, Verdict, tool
from outlast.world import Claim, Commit, Lease, Takeover, WorkerOffer, World
from outlast.worlds.sqlite import open_sqlite
from tests.unit.listed_model import says, texts, wants

DAY_S = 86_400.0


def agent_of(function: LoopFunction, *tools: Tool) -> Agent:
    return Agent("tester", Loop(function), tools=tools)


def paying(tool_: Tool) -> Agent:
    """An agent that pays once."""

    async def run(io: IO, prompt: str) -> object:
        return (await io.result(tool_, {"cents": 5})).status

    return agent_of(run, tool_)


class Till:
    """The world outside."""

    def __init__(self) -> None:
        self.paid = 0

    async def pay(self, io: ToolIO, cents: int) -> str:
        """Pay."""
        self.paid += 1
        return f"paid {cents}"

    async def landed(self, io: ToolIO, cents: int) -> Verdict:
        return Done(f"paid {cents}") if self.paid else NotDone()


async def test_a_call_that_must_never_run_twice_does_not_and_says_where_it_is_in_doubt(
    kill_everywhere: KillEverywhere,
) -> None:
    cuts = await kill_everywhere(lambda: paying(tool(name="pay")(Till().pay)), "go")
    uncut, *others = cuts
    assert (uncut.spot, uncut.end, uncut.count("pay", cents=5)) == (None, ("done", "ok", ""), 1)
    assert len(others) > 10
    assert all(cut.count("pay") <= 1 for cut in others)
    doubtful = [cut for cut in others if cut.in_doubt]
    assert {str(cut.spot) for cut in doubtful} >= {"in-effect(never)#1", "after-effect(never)#1"}
    assert {cut.value for cut in doubtful} == {"in_doubt"}
    assert {cut.count("pay", cents=6) for cut in cuts} == {0}


async def test_what_an_agent_spawns_is_not_carried_not_even_its_like(kill_everywhere: KillEverywhere) -> None:
    async def run(io: IO, prompt: str) -> object:
        await io.result("pay", {"cents": 5})
        return await io.spawn("tester", "you too")

    cuts = await kill_everywhere(lambda: agent_of(run, tool(name="pay")(Till().pay)), "go")
    assert {(cut.status, cut.count("pay")) for cut in cuts} <= {("waiting", 0), ("waiting", 1)}


async def test_a_ready_made_loop_is_killed_between_its_model_calls_too(
    kill_everywhere: KillEverywhere,
) -> None:
    @tool(replay="safe")
    async def look(io: ToolIO) -> str:
        """Look."""
        return "seen"

    def make() -> Agent:
        return Agent("tester", Assistant(Looker(), "Look."), tools=[look])

    cuts = await kill_everywhere(make, "go")
    assert cuts[0].value == "It is seen."
    assert {cut.spot.policy for cut in cuts if cut.spot is not None} == {"", "model", "safe"}
    assert not any(cut.in_doubt for cut in cuts)


class Looker:
    """A model that looks once and says what it saw."""

    name = provider = "looker"
    context_tokens = 0

    def versions(self) -> Mapping[str, str]:
        return {}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        if isinstance(request.messages[-1], ToolMessage):
            return says(f"It is {texts(request)[-1]}.")
        return says("I look.", wants("look", id="look-1"))


async def test_each_turn_has_an_outside_of_its_own_that_is_looked_at_before_the_next(
    kill_everywhere: KillEverywhere,
) -> None:
    tills: list[Till] = []
    seen: list[Cut] = []

    def make() -> Agent:
        tills.append(till := Till())
        return paying(tool(verify=till.landed, name="pay")(till.pay))

    def after(cut: Cut) -> None:
        assert tills[-1].paid == 1, "paid once, wherever it was killed"
        assert not cut.in_doubt
        seen.append(cut)

    assert list(await kill_everywhere(make, "go", after=after)) == seen
    assert len(seen) == len(tills)


async def test_what_an_own_look_finds_says_where_the_worker_was_killed(
    kill_everywhere: KillEverywhere,
) -> None:
    agent = paying(tool(replay="safe", name="pay")(Till().pay))

    def after(cut: Cut) -> None:
        assert cut.count("pay") == 1, "paid twice"

    with pytest.raises(AssertionError, match="paid twice") as found:
        await kill_everywhere(agent, "go", after=after)
    assert found.value.__notes__ == ["killed at after-effect(safe)#1"]


async def test_a_turn_that_ends_otherwise_when_killed_is_found_out(kill_everywhere: KillEverywhere) -> None:
    ends = iter(range(1_000))

    async def run(io: IO, prompt: str) -> object:
        await io.once("nothing", lambda: None)
        return next(ends)

    with pytest.raises(
        AssertionError, match=r"killed at .*#1: the turn ended as \('done', \d+, ''\), uncut as"
    ):
        await kill_everywhere(agent_of(run), "go")
    cuts = await kill_everywhere(agent_of(run), "go", same_end=False)
    assert all(cut.status == "done" for cut in cuts)


async def test_what_comes_from_outside_comes_when_the_turn_rests_and_days_pass_by_themselves(
    kill_everywhere: KillEverywhere,
) -> None:
    @tool
    async def look(io: ToolIO) -> str:
        """Look."""
        return "seen"

    async def run(io: IO, prompt: str) -> object:
        await io.sleep(30 * DAY_S)
        found = await io.tool(look)
        return [found, await io.wait_for("ci", timeout_s=90 * DAY_S), await io.ask("May I?")]

    async def meanwhile(session: Session, clock: ManualClock) -> None:
        await session.signal("ci", "green", id="ci-1")
        state = await session.state()
        for call in state.turn.open_calls() if state.turn else ():
            if call.intent.name == "person":
                await session.decide(call.intent.call, value="yes", id="yes")

    cuts = await kill_everywhere(agent_of(run, look), "go", meanwhile=meanwhile)
    assert cuts[0].value == ["seen", "green", "yes"]
    assert len(cuts) > 25
    (forgotten,) = {cut.end for cut in await kill_everywhere(agent_of(_waits), "go")}
    assert forgotten == ("waiting", None, "")


async def _waits(io: IO, prompt: str) -> object:
    return await io.wait_for("ci")


async def test_a_person_who_is_asked_about_a_doubt_is_what_the_turn_is_parked_for(
    kill_everywhere: KillEverywhere,
) -> None:
    agent = paying(tool(on_doubt="ask", name="pay")(Till().pay))
    parked = [cut for cut in await kill_everywhere(agent, "go") if cut.status == "decision"]
    assert "after-effect(never)#1" in {str(cut.spot) for cut in parked}
    assert all(cut.in_doubt == [1] for cut in parked)

    async def decide(session: Session, clock: ManualClock) -> None:
        await session.decide(1, "run_again", id="again")

    cuts = await kill_everywhere(agent, "go", meanwhile=decide)
    assert {cut.status for cut in cuts} == {"done"}
    assert max(cut.count("pay") for cut in cuts) == 2, "a person said so"


async def test_a_try_that_had_no_effect_breaks_no_promise(kill_everywhere: KillEverywhere) -> None:
    def make() -> Agent:
        tries = iter([TryAgain("busy"), TryAgain("busy")])

        async def pay(io: ToolIO, cents: int) -> str:
            """Pay."""
            for failure in tries:
                raise failure
            return "paid"

        return paying(tool(retries=5)(pay))

    cuts = await kill_everywhere(make, "go")
    assert cuts[0].count("pay") == 3


class Losing(AroundWorld):
    """A store that loses what its first worker was told to be durable."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._claims = 0

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        self._claims += 1
        return await super().claim(offer, takeover)

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        return [None] * len(commits) if self._claims == 1 else await super().commit_many(commits)


async def test_a_store_that_loses_what_was_durable_is_found_out() -> None:
    opened: list[World] = []

    @asynccontextmanager
    async def open_world(clock: Clock) -> AsyncGenerator[World]:
        async with in_memory(clock) as world:
            opened.append(Losing(world) if opened else world)
            yield opened[-1]

    agent = paying(tool(name="pay")(Till().pay))
    with pytest.raises(
        AssertionError, match=r"killed at after-effect\(never\)#1: pay \(call 1\) ran 2 times"
    ):
        await killing.kill_everywhere(agent, "go", open_world=open_world)


async def test_an_agent_that_is_a_program_is_refused_with_what_to_do_instead(
    kill_everywhere: KillEverywhere,
) -> None:
    class Program(Scripted):
        async def advance(self, attempt: Attempt) -> TurnResult:
            attempt.processes.start(["program"], env={}, cwd=Path("/"))
            return TurnResult("done")

    with pytest.raises(BadInput, match="kill_gate"):
        await kill_everywhere(Agent("tester", Program(script=[])), "go")


class TestInAStoreOfOnesOwn:
    @pytest.fixture
    def outlast_world(self, tmp_path: Path) -> OpenWorld:
        numbers = iter(range(1_000))

        def open_world(clock: Clock) -> AbstractAsyncContextManager[World]:
            return open_sqlite(tmp_path / f"{next(numbers)}.db", clock=clock)

        return open_world

    async def test_a_turn_is_killed_everywhere_in_it(
        self, kill_everywhere: KillEverywhere, tmp_path: Path
    ) -> None:
        cuts = await kill_everywhere(paying(tool(name="pay")(Till().pay)), "go")
        assert len(list(tmp_path.glob("*.db"))) >= len(cuts)
