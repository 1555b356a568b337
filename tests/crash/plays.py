"""Plays on the stage: one session carried through the deaths of its workers, and what must hold of it then."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from outlast.adapter import Agent
from outlast.adapters.scripted import Scripted
from outlast.fold import fold
from outlast.records import (
    AnyRecord,
    CallOutcome,
    NoticeDue,
    NoticeTried,
    PromptQueued,
    SteerTaken,
    TurnSettled,
)
from outlast.records.events import Event
from outlast.recovery import IN_DOUBT
from outlast.session import Outcome, Session
from outlast.testing.faults import Spot, spots
from outlast.watch import Screen, events
from outlast.world import START, Cursor, World
from tests.crash.stage import Life, Outside, Script, Witness, records_of

LIMIT_S = 20.0


@dataclass
class Play:
    """One session, carried by one life after the other until its turn ends."""

    script: Script
    outside: Outside
    lives: list[Life]
    outcome: Outcome
    seen: list[Event]
    """What a watcher saw who was there from the beginning."""

    @property
    def crossed(self) -> list[Spot]:
        """Where the last life could have been struck."""
        return spots(self.lives[-1].record.crossings)

    def screen(self) -> Screen:
        return screen_of(self.seen)


async def play(
    world: World,
    session: str,
    script: Script,
    deaths: Sequence[Spot | int] = (),
    *,
    slow: bool = False,
    told: bool = False,
    dense: bool = False,
) -> Play:
    """Carry a session through the `deaths` of its workers, one after the other, to the end.

    Args:
        slow: models and tools wait until watchers have seen a part of what they say.
        told: somebody is notified of how the turn stands.
        dense: every commit within a turn begins with a snapshot.
    """
    witness = Witness(world)
    outside = Outside(session, witness, listens=told)
    opened = await Session.open(world, session, agent=Agent("tester", Scripted(script=script)))
    await opened.send("go", id="in-1")
    seen: list[Event] = []
    watching = asyncio.get_running_loop().create_task(_watch(world, session, seen))
    lives: list[Life] = []
    async with asyncio.timeout(LIMIT_S):
        for death in (*deaths, None):
            dead = frozenset(life.name for life in lives)
            name = f"life-{len(lives)}"
            lives.append(Life(outside, script, name=name, slow=slow, dense=dense, death=death))
            if await lives[-1].work(dead):
                break
        outcome = await opened.result(1)
        await watching
    return Play(script, outside, lives, outcome, seen)


async def _watch(world: World, session: str, seen: list[Event]) -> None:
    async with aclosing(events(world, session, START)) as coming:
        async for event in coming:
            seen.append(event)
            if event.kind == "turn.settled":
                return


async def read_from(world: World, session: str, cursor: str) -> list[Event]:
    """What a watcher sees who comes back with `cursor`, up to the end of the turn."""
    seen: list[Event] = []
    async with aclosing(events(world, session, Cursor.parse(cursor))) as coming:
        async for event in coming:
            seen.append(event)
            if event.kind == "turn.settled":
                break
    return seen


def screen_of(seen: Sequence[Event]) -> Screen:
    screen = Screen()
    for event in seen:
        screen.apply(event)
    return screen


async def check_steer(play: Play) -> None:
    """A steer that was put is taken once: by a model call of its turn, or as the next prompt."""
    session, witness = play.outside.session, play.outside.witness
    put = await witness.find_input(session, "steer-1")
    if put is None:
        return
    records = [record for commit in await witness.commits(session) for record in records_of(session, commit)]
    taken = [record for record in records if isinstance(record, SteerTaken)]
    queued = [record for record in records if isinstance(record, PromptQueued) and record.steered]
    assert put.consumed_by is not None
    assert len(taken) + len(queued) == 1
    settled = sum(isinstance(record, TurnSettled) for record in records)
    assert settled == 1 + len(queued)


async def check(play: Play) -> None:
    """Every promise that holds whatever dies when."""
    outside, script = play.outside, play.script
    session, witness = outside.session, outside.witness
    assert not outside.wrongs
    commits = await witness.commits(session)
    state = fold(session, commits)  # refuses a log out of order, and calls open at the end
    assert state.turn is None
    _check_told(play, [record for commit in commits for record in records_of(session, commit)])
    assert not state.untold
    assert not state.queue
    assert play.outcome.status == "done", play.outcome
    outcomes: dict[str, CallOutcome] = {}
    for outcome in witness.finished[session].values():
        intent = witness.intents[session][outcome.call]
        if intent.kind == "tool" and intent.turn == 1:
            outcomes[intent.arguments.value()["tag"]] = outcome
    told = list(_told(script, play.outcome.value))
    texts = [what for what, result in told if isinstance(what, str) and what == result]
    assert texts == [step["text"] for step in script if step["do"] == "model"]
    assert play.outcome.usage.output_tokens == sum(map(len, texts))
    calls = [(what, result) for what, result in told if not isinstance(what, str)]
    assert set(outcomes) == {step["arguments"]["tag"] for step, _ in calls}
    for step, result in calls:
        _check_effect(
            play, step["name"], step["arguments"]["tag"], outcomes[step["arguments"]["tag"]], result
        )


def _check_told(play: Play, records: Sequence[AnyRecord]) -> None:
    """Whatever is due is told at least once, and again only where somebody died who had begun to."""
    due = [record for record in records if isinstance(record, NoticeDue)]
    assert bool(due) is play.outside.listens
    assert set(play.outside.told) == {f"default/{play.outside.session}/{one.number}" for one in due}
    assert all(times <= len(play.lives) for times in play.outside.told.values())
    tried = [record.number for record in records if isinstance(record, NoticeTried)]
    assert tried == [one.number for one in due], "it is in the log once that somebody was told"


def _told(script: Script, results: Sequence[Any]) -> Iterator[tuple[str | Mapping[str, Any], Any]]:
    """What the harness was told, step by step: texts of models and calls of tools, each with its result."""
    rest = iter(results)
    for step in script:
        match step["do"]:
            case "model":
                yield step["text"], next(rest)
                yield from zip(step["tools"], rest, strict=False) if step["tools"] else ()
            case "batch":
                yield from zip(step["tools"], next(rest), strict=True)
            case _:
                yield step, next(rest)


def _check_effect(play: Play, name: str, tag: str, outcome: CallOutcome, result: Any) -> None:
    outside, times = play.outside, play.outside.effects[tag]
    if outcome.status == "ok":
        assert result == f"{tag} done"
        assert times >= 1, "a result without an effect"
    else:
        assert outcome.status == "in_doubt"
        assert IN_DOUBT in (result if name.startswith("built_in") else result["value"])
        assert name not in {"safe", "keyed", "verify", "built_in_safe"}, "there was no reason for doubt"
        assert outcome.call in outside.witness.begun[outside.session], "what never began is in no doubt"
        assert len(play.lives) > 1, "nobody died"
    if name not in {"safe", "built_in_safe"}:
        assert times <= 1 or name == "keyed", f"{tag} happened {times} times"
        assert len(outside.keys[tag]) <= 1, "another key"
