"""A person chooses to have a call in doubt compensated: how it is shown, and the commands."""

from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.cli.main import main
from outlast.errors import ToolError
from outlast.gate import Gate, OpenGate, Point
from outlast.rules import ask
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolFailed, ToolIO, tool
from outlast.worlds.sqlite import open_sqlite
from tests.unit.engine_desk import Desk


class Office:
    """A session whose payment is in doubt, with a bank that is closed at first."""

    def __init__(self, directory: Path, *, closed: int = 0, asks: bool = False) -> None:
        self.world = directory / "world.db"
        self.undone: list[str] = []
        self._closed = closed
        self._asks = asks
        self._lives = 0
        anyio.run(self._begin)

    def agent(self) -> Agent:
        @tool
        async def undo(io: ToolIO, order: str) -> str:
            """Take a payment back."""
            self._closed -= 1
            if self._closed >= 0:
                raise ToolFailed("the bank is closed")
            self.undone.append(order)
            return f"took back {order}"

        @tool(on_doubt="ask", compensate=undo)
        async def pay(io: ToolIO, order: str, cents: int) -> str:
            """Pay."""
            return f"paid {order}"

        async def run(io: IO, prompt: str) -> str:
            try:
                return str(await io.tool(pay, order="81", cents=5))
            except ToolError as error:
                return str(error)

        rules = [ask("undo")] if self._asks else []
        return Agent("tester", Loop(run), tools=[pay], rules=rules)

    async def _begin(self) -> None:
        async with open_sqlite(self.world) as world:
            session = await Session.open(world, "s", agent=self.agent())
            await session.send("go", id="in-1")
        await self._life(Spot(Point.AFTER_EFFECT, "never"))
        await self._life(None)

    async def _life(self, death: Spot | None) -> None:
        self._lives += 1
        dead = frozenset(f"w-{number}" for number in range(self._lives))
        async with open_sqlite(self.world) as world:
            mortal = MortalWorld(world)
            gate: Gate = OpenGate() if death is None else DeathGate(death, mortal)
            with suppress(Killed):
                await Desk(mortal, gate=gate, name=f"w-{self._lives}", dead=dead).work(self.agent())

    def work(self) -> None:
        """Carry the session on."""
        anyio.run(self._life, None)

    def run(self, *words: str, status: int = 0) -> str:
        """A command, which ends with `status`."""
        environ = {"OUTLAST_WORLD": f"sqlite:{self.world}", "OUTLAST_DATA_DIR": str(self.world.parent)}
        result = CliRunner().invoke(main, words, env=environ)
        assert result.exit_code == status, result.output
        return result.output


def test_a_person_may_choose_the_compensation_of_a_call_in_doubt(tmp_path: Path) -> None:
    office = Office(tmp_path)
    shown = office.run("show", "s")
    assert (
        "Call 1 is in doubt, it may have run: pay order=81, cents=5 (it can be compensated by undo)" in shown
    )
    assert "  outlast decide s 1 --compensate\n" in shown
    for _ in range(2):
        office.run("decide", "s", "1", "--compensate")
    other = office.run("decide", "s", "1", "--run-again", status=5)
    assert "was given first" in other
    office.work()
    assert office.undone == ["81"]
    assert "undo ran as a call of its own and ended well: took back 81" in office.run("show", "s")
    assert "compensates=1" in office.run("log", "s")


def test_where_the_compensation_fails_the_person_is_asked_again(tmp_path: Path) -> None:
    office = Office(tmp_path, closed=1)
    office.run("decide", "s", "1", "--compensate")
    office.work()
    shown = office.run("show", "s")
    assert "(its compensation, call 2, ended as error)" in shown
    assert "compensates call 1" in shown
    office.run("decide", "s", "1", "--compensate")
    office.work()
    assert office.undone == ["81"]
    assert "ended well: took back 81" in office.run("show", "s")


@pytest.mark.parametrize("word", ["--allow", "--deny"])
def test_rules_stand_before_a_compensation(tmp_path: Path, word: str) -> None:
    office = Office(tmp_path, asks=True)
    office.run("decide", "s", "1", "--compensate")
    office.work()
    assert office.undone == []
    assert "Call 2 wants to be allowed: undo order=81" in office.run("show", "s")
    office.run("decide", "s", "2", *([word] if word == "--allow" else [word, "not today"]))
    office.work()
    if word == "--allow":
        assert office.undone == ["81"]
    else:
        assert "(its compensation, call 2, ended as error)" in office.run("show", "s")


def test_what_has_no_compensation_cannot_be_compensated(tmp_path: Path) -> None:
    office = Office(tmp_path, asks=True)
    office.run("decide", "s", "1", "--compensate")
    office.work()
    refused = office.run("decide", "s", "2", "--compensate", status=2)
    assert "Call 2 wants to be allowed. Say --allow or --deny TEXT." in refused
    assert "--for-turn goes with --allow" in office.run(
        "decide", "s", "2", "--for-turn", "--deny", "no", status=2
    )
