"""What the command line says of sessions that a loop spawned, and does when one of them is erased."""

from pathlib import Path

import anyio

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import SystemClock
from outlast.errors import ChildFailed
from outlast.opening import open_world
from outlast.session import Session
from tests.acceptance.test_cli_sessions import Desk
from tests.unit.family_desk import Family


async def boss(io: IO, prompt: str) -> object:
    if io.state is None:
        await io.continue_as_new("again")
    try:
        return await io.spawn("helper", prompt)
    except ChildFailed as error:
        return str(error)


def carried(desk: Desk, *, begin: bool = False) -> str:
    """The parent as far as it goes without its child. Returns how it stands."""

    async def body() -> str:
        async with open_world(desk.url) as world:
            session = await Session.open(world, "boss", agent="boss")
            if begin:
                await session.send("find it", id="in-1")
            await Family(world, SystemClock(), [Agent("boss", Loop(boss))]).work()
            return (await session.head()).status

    return anyio.run(body)


def test_a_family_is_named_on_both_sides_and_an_erased_child_is_told_of(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert carried(desk, begin=True).startswith("turn 1 waiting")
    (awaits,) = desk.json("show", "boss")[0]["open_turn"]["awaits"]
    child = awaits["child"]
    assert (awaits["what"], awaits["commands"]) == ("child", [f"outlast show {child}"])
    assert f"waits for helper in the session {child}: outlast show {child}" in desk.run("ls").output
    (line,) = [line for line in desk.run("show", "boss").output.splitlines() if " spawn " in line]
    assert f"{child}  agent=helper" in line
    assert "spawned by call 1 of boss" in desk.run("show", child).output
    assert desk.json("show", child)[0]["parent"]["session"] == "boss"
    desk.run("rm", child, "--yes")
    assert carried(desk).startswith("turn 1 done")
    assert f"The session {child} was erased." in desk.json("show", "boss")[0]["result"]
