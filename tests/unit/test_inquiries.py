"""Calls of the harness's that were cut off: the workspace is asked whether they took effect."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outlast.adapter import Agent, Places
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.engine.recover import FILES_BACK, UNDONE
from outlast.errors import WorkspaceError
from outlast.gate import Point
from outlast.inquiry import Answer, Partly, Scene, Witness
from outlast.records import EMPTY, CallOutcome, CallStarted, TurnParked, Verdict
from outlast.records.kinds import OnDoubt, Policy
from outlast.recovery import IN_DOUBT, NOT_DONE, Abilities
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Done, NotDone, Unsure
from outlast.workspace import Undone
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.paper import Paper, Scrap, on_paper
from tests.unit.engine_desk import Desk, call, records, say

LONG = "x" * 20_000
"""Arguments with it stand behind a blob."""


@pytest.fixture(autouse=True)
def _no_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(places: Places, *, workspace: bool) -> None:
        pass

    monkeypatch.setattr("outlast.sites.make_places", none)


@dataclass
class Put:
    """What can be asked about `put path text`."""

    arguments: Mapping[str, Any]
    files_only: bool = True
    trouble: Exception | None = None

    async def note(self, scene: Scene) -> Witness | None:
        if self.trouble is not None:
            raise self.trouble
        before = await scene.read(self.arguments["path"])
        return {
            "before": None if before is None else before.decode(),
            "after": self.arguments["text"],
        }

    async def ask(self, scene: Scene, witness: Witness) -> Answer:
        found = await scene.read(self.arguments["path"])
        text = None if found is None else found.decode()
        if text == "half":
            return Partly("Half of it is there.")
        if text == witness["after"]:
            return Done(f"{self.arguments['path']} is put.")
        return NotDone() if text == witness["before"] else Unsure(f"It holds {text!r}.")


class Bench:
    """A machine that lives on, and workers that die on it."""

    def __init__(
        self,
        *,
        policy: Policy = "verify",
        on_doubt: OnDoubt = "tell",
        files_only: bool = True,
        trouble: Exception | None = None,
        undoes: Undone = "",
        can: Abilities | None = None,
        text: str = "new",
    ) -> None:
        self.kind = Paper(programs=True, undoes=undoes, machine={})
        self.ran: list[str] = []
        built_in = BuiltIn(self.put, policy, on_doubt, lambda said: Put(said, files_only, trouble))
        script = say("I write.", call("put", path="a", text=text))
        self.agent = Agent("tester", Scripted(script=[script], built_ins={"put": built_in}, abilities=can))

    async def put(self, arguments: Mapping[str, Any]) -> str:
        self.ran.append(arguments["path"])
        assert self.kind.machine is not None
        self.kind.machine[arguments["path"]] = arguments["text"]
        return "put"

    async def life(self, world: World, name: str, death: Spot | None = None) -> RecordingGate:
        """A worker works until it dies or all is done."""
        mortal, record = MortalWorld(world), RecordingGate()
        self.kind.check = mortal.check
        gate = record if death is None else DeathGate(death, mortal, inner=record)
        around = on_paper(mortal, self.kind, Path("/nonexistent-data"))
        with suppress(Killed):
            await Desk(mortal, gate=gate, name=name, dead=DEAD, surroundings=around).work(self.agent)
        return record

    async def cut_off(
        self, world: World, at: Point, *, before: str = "old", then: str | None = None
    ) -> Session:
        """A worker dies at a point of the call; then the file is changed, if at all, and another goes on."""
        assert self.kind.machine is not None
        self.kind.machine["a"] = before
        session = await Session.open(world, "s-1", agent=self.agent, workspace=Scrap())
        await session.send("go", id="in-1")
        await self.life(world, "w-1", Spot(at, "verify"))
        if then is not None:
            self.kind.machine["a"] = then
        await self.life(world, "w-2")
        return session


DEAD = frozenset({"w-1", "w-2"})


async def outcome(world: World) -> CallOutcome:
    (found,) = [one for one in await records(world) if isinstance(one, CallOutcome) and one.call == 2]
    return found


async def verdicts(world: World) -> list[Verdict]:
    return [one for one in await records(world) if isinstance(one, Verdict)]


@pytest.mark.parametrize("text", ["new", LONG])
async def test_one_that_took_effect_is_settled_and_not_run_again(text: str) -> None:
    bench = Bench(text=text)
    async with open_memory() as world:
        session = await bench.cut_off(world, Point.AFTER_EFFECT)
        assert (await session.result(1)).status == "done"
        ended, (verdict,) = await outcome(world), await verdicts(world)
    assert bench.ran == ["a"]
    assert (ended.status, ended.result.value(), verdict.verdict) == ("ok", "a is put.", "done")


async def test_one_that_took_effect_in_part_is_told_and_not_run_again() -> None:
    bench = Bench(on_doubt="ask")
    async with open_memory() as world:
        session = await bench.cut_off(world, Point.IN_EFFECT, then="half")
        assert (await session.result(1)).status == "done"
        ended, (verdict,) = await outcome(world), await verdicts(world)
    assert bench.ran == []
    assert (ended.status, ended.result.value()) == ("interrupted", "Half of it is there.")
    assert (verdict.verdict, verdict.note) == ("unsure", "Half of it is there.")


@pytest.mark.parametrize("text", ["new", LONG])
async def test_one_without_effect_is_run_by_the_harness_that_can(text: str) -> None:
    bench = Bench(text=text)
    async with open_memory() as world:
        session = await bench.cut_off(world, Point.IN_EFFECT)
        assert (await session.result(1)).status == "done"
        ended, (verdict,) = await outcome(world), await verdicts(world)
        begun = [one for one in await records(world) if isinstance(one, CallStarted)]
    assert bench.ran == ["a"]
    assert (ended.status, ended.result.value(), verdict.verdict) == ("ok", "put", "not_done")
    assert len(begun) == 2
    assert all(one.witness != EMPTY for one in begun)


async def test_one_without_effect_is_called_anew_where_the_harness_cannot_run_it_again() -> None:
    bench = Bench(can=Abilities("none"))
    async with open_memory() as world:
        await bench.cut_off(world, Point.IN_EFFECT)
        ended = await outcome(world)
    assert bench.ran == []
    assert (ended.status, ended.result.value()) == ("interrupted", NOT_DONE)


async def test_of_one_that_nobody_can_tell_the_model_is_told_what_was_found() -> None:
    bench = Bench()
    async with open_memory() as world:
        await bench.cut_off(world, Point.AFTER_EFFECT, then="other")
        ended = await outcome(world)
    assert (ended.status, ended.result.value()) == ("in_doubt", f"{IN_DOUBT} It holds 'other'.")


async def test_of_one_that_nobody_can_tell_a_person_is_asked_where_the_tool_wants_it() -> None:
    bench = Bench(on_doubt="ask")
    async with open_memory() as world:
        await bench.cut_off(world, Point.AFTER_EFFECT, then="other")
        (parked,) = [one for one in await records(world) if isinstance(one, TurnParked)]
        (verdict,) = await verdicts(world)
    assert parked.evidence["in_doubt"] == [2]
    assert verdict.note == "It holds 'other'."


@pytest.mark.parametrize("trouble", [WorkspaceError(detail="no"), ValueError("no")])
async def test_one_of_which_nothing_could_be_noted_begins_and_is_in_doubt(trouble: Exception) -> None:
    bench = Bench(trouble=trouble)
    async with open_memory() as world:
        await bench.cut_off(world, Point.AFTER_EFFECT)
        ended = await outcome(world)
        assert await verdicts(world) == []
    assert bench.ran == ["a"]
    assert (ended.status, ended.result.value()) == ("in_doubt", IN_DOUBT)


async def test_nothing_is_noted_of_one_that_is_never_run_again() -> None:
    bench = Bench(policy="never")
    async with open_memory() as world:
        session = await bench.cut_off(world, Point.AFTER_EFFECT)
        assert (await session.result(1)).status == "done"
        (begun,) = [one for one in await records(world) if isinstance(one, CallStarted)]
    assert begun.witness == EMPTY


@pytest.mark.crash
async def test_a_death_at_every_point_of_life_and_recovery_runs_it_once() -> None:
    bench = Bench()
    async with open_memory() as world:
        session = await Session.open(world, "s-1", agent=bench.agent, workspace=Scrap())
        await session.send("go", id="in-1")
        first = spots((await bench.life(world, "w-1")).crossings)
    seconds = [Spot(Point.BEFORE_VERIFY, "verify"), Spot(Point.AFTER_VERDICT, "verify"), None]
    for death in first:
        for second in seconds:
            bench = Bench()
            async with open_memory() as world:
                session = await Session.open(world, "s-1", agent=bench.agent, workspace=Scrap())
                await session.send("go", id="in-1")
                await bench.life(world, "w-1", death)
                if second is not None:
                    await bench.life(world, "w-2", second)
                await bench.life(world, "w-3")
                assert (await session.result(1)).status == "done", (death, second)
                assert bench.ran == ["a"], (death, second)
                assert bench.kind.machine == {"a": "new"}
                assert (await outcome(world)).status == "ok", (death, second)


@pytest.mark.parametrize(
    ("undoes", "policy", "files_only", "status", "text"),
    [
        ("all", "verify", True, "interrupted", UNDONE),
        ("all", "never", False, "interrupted", UNDONE),
        ("files", "verify", True, "interrupted", UNDONE),
        # Of which no witness was taken: nobody has looked whether it stays within the workspace.
        ("files", "never", True, "in_doubt", f"{IN_DOUBT} {FILES_BACK}"),
        ("files", "never", False, "in_doubt", f"{IN_DOUBT} {FILES_BACK}"),
        ("", "never", True, "in_doubt", IN_DOUBT),
    ],
)
async def test_that_nothing_is_left_is_said_only_of_what_could_reach_nothing_but_what_was_undone(
    undoes: Undone,
    policy: Policy,
    files_only: bool,  # noqa: FBT001 - a parameter of the test
    status: str,
    text: str,
) -> None:
    bench = Bench(policy=policy, undoes=undoes, files_only=files_only)
    async with open_memory() as world:
        session = await Session.open(world, "s-1", agent=bench.agent, workspace=Scrap())
        await session.send("go", id="in-1")
        await bench.life(world, "w-1", Spot(Point.AFTER_EFFECT, policy))
        await bench.life(world, "w-2")
        ended = await outcome(world)
    assert (ended.status, ended.result.value()) == (status, text)


async def test_what_may_have_gone_out_of_a_sandbox_made_anew_is_asked_about() -> None:
    bench = Bench(undoes="files", files_only=False)
    async with open_memory() as world:
        await bench.cut_off(world, Point.AFTER_EFFECT, then="other")
        ended = await outcome(world)
    assert ended.result.value() == f"{IN_DOUBT} {FILES_BACK} It holds 'other'."
