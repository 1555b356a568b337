"""Requirements that others have of durable execution, adapted to a loop of one's own.

The ids are those of `aws-durable-execution-conformance-tests` 1.0.0 (Apache-2.0), which deploys functions and compares
their histories; what each demands is said here in our own words, and shown on our own terms: by what the world outside
sees, what the turn ends with, and what our log tells. It makes nobody conformant to anything of theirs.

Of its 155 requirements these 59 concern what a loop does too: steps (1), waits (2), callbacks (4), and callbacks that a
step hands out (7). Numbers of events and ends of invocations are theirs alone and left out; where one of ours ends an
attempt (`…` in a story), theirs ends an invocation, but for the pause before another try, which we hold in the process.
"""

from collections import Counter
from typing import Final, NamedTuple

import pytest

from tests.conformance.adapted import callbacks, handed_out, steps
from tests.conformance.adapted.stage import PLAYS, open_stage


class Requirement(NamedTuple):
    """What is demanded, and by what it is held."""

    demand: str
    held_by: str


PAUSE: Final = "TryAgain and retries=; the worker is kept in the pause, a minute at most"
REFUSAL: Final = "io.ask, whose decision is `failed`; the error is its text, without a type of its own"
LANE: Final = "io.gather: a callback that exists before it is waited for is a wait in a lane of its own"
BEAT: Final = "io.wait_for again and again: each heartbeat is a signal, and a call in the log"
HANDED: Final = "io.tool, then io.wait_for; the name is the loop's own, not made by the store"

REQUIREMENTS: Final = {
    "1-1": Requirement("a step gets what the turn was given, and its result ends the turn", "io.tool"),
    "1-2": Requirement("a step is known by a name that was chosen for it", "tool(name=)"),
    "1-3": Requirement("a step is given what the one before it returned", "io.tool"),
    "1-4": Requirement("objects within objects come back as they were", "io.tool; results are JSON"),
    "1-5": Requirement("nothing is a result like any other", "io.tool"),
    "1-6": Requirement("a step's own way of writing its result counts", "a function around the tool's own"),
    "1-7": Requirement("what a step says while it runs is seen outside", "ToolIO.show, to watchers"),
    "1-8": Requirement("after a wait the steps before it are passed over", "io.tool, io.sleep"),
    "1-9": Requirement("a step that is passed over gives its first result and does not run", "io.tool"),
    "1-10": Requirement("a step that failed fails the same way when passed over", "io.tool, ToolError"),
    "1-11": Requirement("a step that fails once is tried again after a pause", PAUSE),
    "1-12": Requirement("when the last try has failed the turn does", PAUSE),
    "1-13": Requirement(
        "pauses grow where nobody said how long", f"{PAUSE}; without retries= there is no other try"
    ),
    "1-14": Requirement("pauses are as long as was asked for", f"{PAUSE}; TryAgain(after_s=)"),
    "1-15": Requirement("what is worth another try is tried again", "the tool raises TryAgain for it"),
    "1-16": Requirement("what is not worth another try fails at once", "the tool lets it through"),
    "1-17": Requirement(
        "a step whose process died may have run: it is not run again", 'replay="never", ToolError'
    ),
    "1-18": Requirement(
        "such a step runs again if that was asked for, as a try of its own", "the loop, at in_doubt"
    ),
    "1-19": Requirement("a step that fails fails the turn", "io.tool"),
    "1-20": Requirement("a failure that the loop catches fails nothing", "io.tool, ToolError"),
    "2-1": Requirement("a wait frees the worker and ends when its time has come", "io.sleep"),
    "2-2": Requirement("a wait is known by a name", "io.wait_for with a time-out; io.sleep takes no name"),
    "2-3": Requirement("several waits come one after the other", "io.sleep"),
    "2-4": Requirement("a minute is sixty seconds", "io.sleep; seconds are the one unit"),
    "2-5": Requirement("an hour costs no more", "io.sleep"),
    "4-1": Requirement(
        "the outside ends a wait, and what it sends is returned", "io.wait_for, Session.signal"
    ),
    "4-2": Requirement("a callback has a name that was chosen for it", "io.wait_for"),
    "4-3": Requirement("a callback that does not come in time fails the turn", "io.wait_for(timeout_s=)"),
    "4-4": Requirement("so does one of which nothing is heard for too long", BEAT),
    "4-5": Requirement("a sign of life begins the time anew", BEAT),
    "4-6": Requirement("the outside reports a failure, which fails the turn", REFUSAL),
    "4-7": Requirement("it may do so after a step that came in between", f"{REFUSAL}; {LANE}"),
    "4-8": Requirement("its time runs from when the callback was made, not waited for", LANE),
    "4-9": Requirement("it may come while the turn waits for something else", LANE),
    "4-10": Requirement("a failure may come while the turn waits for something else", f"{REFUSAL}; {LANE}"),
    "4-11": Requirement("its time may be over while the turn waits for something else", LANE),
    "4-12": Requirement("what came is there again after a later wait", "io.wait_for"),
    "4-13": Requirement("a failure that was caught is there again after a later wait", REFUSAL),
    "4-14": Requirement(
        "a time-out that was caught is there again after a later wait", "io.wait_for(timeout_s=)"
    ),
    "4-15": Requirement("what came is read as a type of the loop's", "msgspec.convert in the loop"),
    "4-16": Requirement("what came is read as a number", "msgspec.convert in the loop"),
    "4-17": Requirement("two callbacks, the second made when the first has come", "io.wait_for"),
    "4-18": Requirement("two callbacks at once, come in the order in which they are waited for", LANE),
    "4-19": Requirement("two callbacks at once, come in the other order", LANE),
    "7-1": Requirement("a step hands a callback out, which then ends the wait", HANDED),
    "7-2": Requirement("its name was chosen for it", HANDED),
    "7-3": Requirement("its name was made up", "io.uuid, io.tool, io.wait_for"),
    "7-4": Requirement("the outside reports a failure, which fails the turn", REFUSAL),
    "7-5": Requirement("what does not come in time fails the turn", HANDED),
    "7-6": Requirement("a reported failure that the loop catches fails nothing", REFUSAL),
    "7-7": Requirement("a callback that cannot be handed out fails the turn", PAUSE),
    "7-8": Requirement("it belongs to the part of the turn that made it", f"{HANDED}; lanes within lanes"),
    "7-9": Requirement("one after the other, each is handed out when its turn comes", HANDED),
    "7-10": Requirement("it goes with waits and steps before it", HANDED),
    "7-11": Requirement("what comes has parts that the loop reads", HANDED),
    "7-12": Requirement("one of which nothing is heard for too long fails the turn", BEAT),
    "7-13": Requirement("a sign of life begins the time anew", BEAT),
    "7-14": Requirement("a time-out that the loop catches fails nothing", HANDED),
    "7-15": Requirement("it may come with nothing in it", HANDED),
}


def test_each_requirement_is_shown_by_one_play() -> None:
    written = {play.__module__ for play in PLAYS.values()}
    assert written == {one.__name__ for one in (steps, callbacks, handed_out)}
    assert PLAYS.keys() == REQUIREMENTS.keys()
    assert Counter(one.partition("-")[0] for one in REQUIREMENTS) == {"1": 20, "2": 5, "4": 19, "7": 15}


LONG: Final = {"1-14"}
"""Waits for seconds, by the machine's clock."""


@pytest.mark.parametrize(
    "requirement",
    [pytest.param(one, marks=[pytest.mark.apart] if one in LONG else []) for one in REQUIREMENTS],
)
async def test_a_requirement_holds(requirement: str) -> None:
    async with open_stage() as stage:
        await PLAYS[requirement](stage)
