"""Rules stand before every tool call: what is denied never runs, what is asked about waits for a word."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapter import Agent, Budget
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.clock import SystemClock
from outlast.errors import BadInput, ToolError
from outlast.gate import Point
from outlast.offers import ASK, WAIT
from outlast.records import CallStarted, TurnReleased
from outlast.rules import STRICTNESS, Rule, allow, ask, deny, judge
from outlast.testing.faults import Spot
from outlast.tool import Tool, ToolIO, tool
from outlast.world import World
from tests.unit.engine_desk import Desk, opened, records, say
from tests.unit.test_python_loop import life


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (deny("Bash"), True),
        (deny("B*"), True),
        (deny("*"), True),
        (deny("Read"), False),
        (deny("Bash", command="rm *"), True),
        (deny("Bash", command="rm"), False),
        (deny("Bash", path="*"), False),
        (deny("Bash", command="*", options="{*force*}"), True),
    ],
)
def test_a_rule_fits_by_tool_and_by_every_argument_that_it_names(
    rule: Rule,
    fits: bool,  # noqa: FBT001 - by the parameters above
) -> None:
    assert rule.fits("Bash", {"command": "rm -rf x\n&& y", "options": {"force": True}}) is fits


@given(st.lists(st.builds(Rule, st.sampled_from(list(STRICTNESS)), st.sampled_from(["a", "b", "*"]))))
def test_the_strictest_rule_that_fits_decides(rules: list[Rule]) -> None:
    words = [rule.word for rule in rules if rule.tool in {"a", "*"}]
    wanted = "deny" if "deny" in words else "ask" if "ask" in words else "allow"
    assert judge(rules, "a", {}).word == wanted
    assert judge([*rules, deny("a")], "a", {}).word == "deny"


def test_a_rule_that_says_nothing_is_an_error() -> None:
    with pytest.raises(BadInput):
        deny("")
    with pytest.raises(BadInput):
        allow("pay", cents=5)  # pyright: ignore[reportArgumentType] - as users may


class Shop:
    """What is outside."""

    def __init__(self) -> None:
        self.paid: Counter[int] = Counter()

    def tools(self) -> list[Tool]:
        async def pay(io: ToolIO, cents: int) -> str:
            """Pay once."""
            self.paid[cents] += 1
            return f"paid {cents}"

        return [tool(pay)]


def agent_of(shop: Shop, rules: Sequence[Rule], *cents: int) -> Agent:
    async def run(io: IO, prompt: str) -> object:
        async def one(amount: int, lane: IO) -> object:
            try:
                return await lane.tool("pay", cents=amount)
            except ToolError as error:
                return str(error)

        return await io.gather(*(partial(one, amount) for amount in cents))

    return Agent("tester", Loop(run), tools=shop.tools(), rules=rules)


async def test_what_is_denied_never_runs_and_the_model_is_told(world: World) -> None:
    shop = Shop()
    agent = agent_of(shop, [deny("pay", cents="????*", why="too much")], 5, 1000)
    session = await opened(world, agent)
    await Desk(world).work(agent)
    told = "pay ended as error: This call is not allowed: too much. It did not run."
    assert (await session.result(1)).value == ["paid 5", told]
    assert shop.paid == {5: 1}


async def test_what_is_asked_about_is_decided_together_and_runs_only_if_allowed(world: World) -> None:
    shop = Shop()
    agent = agent_of(shop, [ask("pay", cents="????", why="it is much")], 5, 1000, 2000, 1000)
    session = await opened(world, agent)
    await Desk(world).work(agent)
    state = await session.state()
    assert state.turn is not None
    assert state.turn.parked is not None
    evidence: dict[str, Any] = state.turn.parked.evidence
    asks: list[int] = evidence["asks"]
    assert len(asks) == 3
    assert set(evidence["why"].values()) == {"it is much"}
    assert shop.paid == {5: 1}
    amounts = {call: state.turn.calls[call].intent.arguments.value()["cents"] for call in asks}
    first, second = (call for call in asks if amounts[call] == 1000)
    (third,) = (call for call in asks if amounts[call] == 2000)
    await session.decide(first, "run_again")  # no word that it waits for
    await session.decide(first, "allow", by="ann")
    await session.decide(third, "deny", by="ann")
    await Desk(world).work(agent)
    assert shop.paid == {5: 1}  # one is left to decide about
    await session.decide(second, "allow")
    await session.decide(second, "deny")  # too late
    await Desk(world).work(agent)
    told = "pay ended as error: A person did not allow this call. It did not run."
    assert (await session.result(1)).value == ["paid 5", "paid 1000", told, "paid 1000"]
    assert shop.paid == {5: 1, 1000: 2}


async def test_what_was_allowed_is_not_asked_about_again_after_a_death(world: World) -> None:
    shop = Shop()
    agent = agent_of(shop, [ask("pay")], 7)
    session = await opened(world, agent)
    await Desk(world).work(agent)
    await session.decide(1, "allow")
    clock = SystemClock()
    await life(world, clock, agent, "w-1", death=Spot(Point.IN_EFFECT, "never"))
    await life(world, clock, agent, "w-2", dead="w-1")
    outcome = await session.result(1)
    assert outcome.status == "done"
    assert "It is not known" in outcome.value[0]  # it had begun: allowed or not, it does not run twice
    assert shop.paid == {}


async def test_rules_stand_before_what_a_harness_runs_itself(world: World) -> None:
    ran: list[object] = []

    async def act(arguments: object) -> str:
        ran.append(arguments)
        return "done"

    built_in = {"Bash": BuiltIn(act, "never")}
    call = {"name": "Bash", "arguments": {"command": "rm -rf /"}}
    script = [say("I clean up", {"do": "tool", **call}), say("all is clean")]
    agent = Agent("tester", Scripted(script=script, built_ins=built_in), rules=[deny("Bash", command="rm *")])
    session = await opened(world, agent)
    await Desk(world).work(agent)
    assert (await session.result(1)).status == "done"
    assert ran == []
    assert not [record for record in await records(world) if isinstance(record, CallStarted)]


async def test_a_harness_waits_for_a_word_before_it_runs_a_built_in(world: World) -> None:
    ran: list[object] = []

    async def act(arguments: object) -> str:
        ran.append(arguments)
        return "done"

    built_in = {"Bash": BuiltIn(act, "never")}
    call = {"name": "Bash", "arguments": {"command": "git push"}}
    script = [say("I push", {"do": "tool", **call}), say("it is pushed")]
    agent = Agent("tester", Scripted(script=script, built_ins=built_in), rules=[ask("Bash")])
    session = await opened(world, agent)
    await Desk(world).work(agent)
    assert ran == []
    await session.decide(2, "allow")
    await Desk(world).work(agent)
    assert (await session.result(1)).value == ["I push", "done", "it is pushed"]
    assert ran == [{"command": "git push"}]


def pays_twice(shop: Shop) -> Agent:
    async def run(io: IO, prompt: str) -> object:
        return [await io.tool("pay", cents=5), await io.tool("pay", cents=5)]

    return Agent("tester", Loop(run), tools=shop.tools(), rules=[ask("pay")], budget=Budget(turn_usd=1.0))


@pytest.mark.parametrize("for_turn", [False, True])
async def test_a_word_is_about_one_call_unless_it_is_for_the_turn(world: World, for_turn: bool) -> None:  # noqa: FBT001 - a case
    shop = Shop()
    agent = pays_twice(shop)
    session = await opened(world, agent)
    await Desk(world).work(agent)
    await session.decide(1, "allow", for_turn=for_turn)
    await Desk(world).work(agent)
    assert shop.paid == {5: 2 if for_turn else 1}
    assert (await session.head()).turn_open is not for_turn
    (released,) = [record for record in await records(world) if isinstance(record, TurnReleased)]
    assert not released.renews, "a word about a call renews no budget"


@pytest.mark.parametrize("name", [ASK, WAIT])
async def test_rules_stand_before_what_outlast_itself_offers(world: World, name: str) -> None:
    arguments = {ASK: {"question": "May I?"}, WAIT: {"signal": "ci"}}[name]
    script = [say("I wait", {"do": "tool", "name": name, "arguments": arguments}), say("so be it")]
    agent = Agent("tester", Scripted(script=script), rules=[deny("outlast_*", why="go on")])
    session = await opened(world, agent)
    clock = SystemClock()
    await life(world, clock, agent, "w-1", death=Spot(Point.OUTCOME_QUEUED, "safe"))
    await life(world, clock, agent, "w-2", dead="w-1")
    said = (await session.result(1)).value
    assert "not allowed: go on" in str(said[1])
