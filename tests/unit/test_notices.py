"""Somebody outside is told how a turn stands: at least once, after the commit, whoever dies on the way."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.adapter import Agent, Budget, Gateway
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import ManualClock, SystemClock
from outlast.engine.ears import NOBODY
from outlast.engine.load import load_state
from outlast.engine.telling import AGAIN_S
from outlast.errors import BadInput, BadSettings
from outlast.gate import Point
from outlast.notify import CommandNotifier, HttpNotifier, Notice, notifier_of
from outlast.records import NoticeDue, NoticeTried, Set
from outlast.serving import Server
from outlast.settings import Settings, read_settings
from outlast.signing import SIGNATURE, sign, verify
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, spots
from outlast.tool import ToolIO, tool
from outlast.worker import WorkerConfig, open_worker
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, agent_of, call, opened, records, say, until

SECRET = "between us"
NOTICE = Notice("default/s-1/1", "default", "s-1", "tester", 1, "settled", "done", 5.0)


class Ear:
    """Hears, or fails to."""

    def __init__(self, *failures: str, mortal: MortalWorld | None = None) -> None:
        self.heard: list[Notice] = []
        self.failures = list(failures)
        self._mortal = mortal

    async def tell(self, notice: Notice) -> str:
        if self._mortal is not None:
            self._mortal.check()
        if self.failures:
            return self.failures.pop(0)
        self.heard.append(notice)
        return ""

    @property
    def said(self) -> list[tuple[int, str, str]]:
        return [(one.turn, one.event, one.status) for one in self.heard]


class Door:
    """Lets somebody be told when it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.came = 0

    async def tell(self, notice: Notice) -> str:
        self.came += 1
        await self.open.wait()
        return ""


class Broken:
    """A notifier with a fault of its own."""

    async def tell(self, notice: Notice) -> str:
        raise RuntimeError("no line")


def looping(run: LoopFunction, **more: Any) -> Agent:
    return Agent("tester", Loop(run), **more)


async def wait_for_ci(io: IO, prompt: str) -> object:
    return await io.wait_for("ci")


async def ask_a_person(io: IO, prompt: str) -> object:
    return await io.ask("Shall I?")


async def sleep_an_hour(io: IO, prompt: str) -> object:
    await io.sleep(3600.0)
    return "rested"


@tool(on_doubt="ask")
async def wire(io: ToolIO) -> str:
    """Wire money."""
    return "wired"


async def tries(world: World) -> list[NoticeTried]:
    return [record for record in await records(world) if isinstance(record, NoticeTried)]


async def test_the_end_of_each_turn_is_told_once_with_ids_and_no_words(world: World) -> None:
    ear, agent = Ear(), agent_of([say("secret words")])
    session = await opened(world, agent, "s-1", "secret prompt", "another")
    await Desk(world, notifier=ear).work(agent)
    assert ear.said == [(1, "settled", "done"), (2, "settled", "done")]
    assert [one.id for one in ear.heard] == ["default/s-1/1", "default/s-1/2"]
    assert "secret" not in repr(ear.heard)
    assert ear.heard[0].agent == "tester"
    head = await session.head()
    assert (head.worker, head.wake_at_s, head.turn_open) == (None, None, False)
    assert [one.ok for one in await tries(world)] == [True, True]


@pytest.mark.parametrize(("run", "status"), [(wait_for_ci, "signal"), (ask_a_person, "person")])
async def test_a_turn_that_waits_for_somebody_is_told_once_however_often_it_is_looked_at(
    world: World, run: LoopFunction, status: str
) -> None:
    ear, agent = Ear(), looping(run)
    session = await opened(world, agent)
    desk = Desk(world, notifier=ear)
    await desk.work(agent)
    await session.signal("something else")
    await desk.work(agent)
    assert ear.said == [(1, "waiting", status)]
    head = await session.head()
    assert (head.parked, head.wake_at_s, head.worker) == (True, None, None)


async def test_a_signal_ends_a_wait_that_was_told_of(world: World) -> None:
    ear, agent = Ear(), looping(wait_for_ci)
    session = await opened(world, agent)
    desk = Desk(world, notifier=ear)
    await desk.work(agent)
    await session.signal("ci", "green")
    await desk.work(agent)
    assert (await session.result(1)).value == "green"
    assert ear.said == [(1, "waiting", "signal"), (1, "settled", "done")]


async def test_nobody_is_told_of_a_sleep() -> None:
    clock, ear, agent = ManualClock(), Ear(), looping(sleep_an_hour)
    async with open_memory(MemoryStore(clock)) as world:
        session = await opened(world, agent)
        desk = Desk(world, clock, notifier=ear)
        await desk.work(agent)
        assert (ear.said, (await session.head()).wake_at_s) == ([], clock.now() + 3600.0)
        clock.turn(3600.0)
        await desk.work(agent)
        assert ear.said == [(1, "settled", "done")]


async def test_a_turn_over_its_budget_is_told(world: World) -> None:
    ear, agent = Ear(), agent_of([say("one"), say("two"), say("three")])
    agent = Agent("tester", agent.adapter, budget=Budget(turn_calls=1))
    session = await opened(world, agent)
    await Desk(world, notifier=ear).work(agent)
    assert ear.said == [(1, "parked", "budget")]
    head = await session.head()
    assert (head.parked, head.wake_at_s) == (True, None)


async def test_a_failure_is_tried_again_later_and_at_last_given_up() -> None:
    clock, agent = ManualClock(), agent_of([say("one")])
    ear = Ear(*["no line"] * 99)
    async with open_memory(MemoryStore(clock)) as world:
        session = await opened(world, agent)
        desk = Desk(world, clock, notifier=ear)
        for pause_s in AGAIN_S:
            await desk.work(agent)
            head = await session.head()
            assert (head.worker, head.wake_at_s) == (None, clock.now() + pause_s)
            assert await desk.claim(agent) is None
            clock.turn(pause_s)
        await desk.work(agent)
        assert (await session.head()).wake_at_s is None
        told = await tries(world)
        assert len(told) == len(AGAIN_S) + 1
        assert {one.error for one in told} == {"no line"}
        assert (told[-1].ok, told[-1].again_at_s) == (False, 0.0)
        assert (await session.result(1)).status == "done"


async def test_a_notifier_that_raises_has_failed(world: World) -> None:
    agent = agent_of([say("one")])
    await opened(world, agent)
    await Desk(world, notifier=Broken()).work(agent)
    assert "no line" in (await tries(world))[0].error


async def test_a_worker_that_tells_nobody_leaves_it_to_one_that_does() -> None:
    clock, ear, agent = ManualClock(), Ear("no line"), agent_of([say("one")])
    async with open_memory(MemoryStore(clock)) as world:
        await opened(world, agent)
        await Desk(world, clock, notifier=ear).work(agent)
        clock.turn(AGAIN_S[0])
        await Desk(world, clock).work(agent)
        assert (await tries(world))[-1].error == NOBODY
        clock.turn(AGAIN_S[1])
        await Desk(world, clock, notifier=ear).work(agent)
        assert ear.said == [(1, "settled", "done")]


async def test_without_a_notifier_nothing_is_written(world: World) -> None:
    agent = agent_of([say("one")])
    await opened(world, agent)
    await Desk(world).work(agent)
    assert not [one for one in await records(world) if isinstance(one, NoticeDue)]


async def test_the_next_turn_waits_for_nobody_who_is_being_told(world: World) -> None:
    door, agent = Door(), agent_of([say("one")])
    session = await opened(world, agent)
    async with Desk(world, notifier=door).working(agent) as work:
        await until(lambda: door.came)
        assert (await session.result(1)).status == "done"
        turn = await session.send("again")
        assert (await turn.result()).status == "done"
        assert door.came == 1
        door.open.set()
        await work
    assert door.came == 2


async def test_a_document_is_edited_while_somebody_is_still_being_told(world: World) -> None:
    door, agent = Door(), agent_of([say("one")])
    session = await opened(world, agent)
    async with Desk(world, notifier=door).working(agent) as work:
        await until(lambda: door.came)
        assert (await session.result(1)).status == "done"
        async with asyncio.timeout(5.0):  # the session is held: whoever holds it does it
            assert (await session.edit("plan", Set({"a": 1}))).version == 1
        assert not work.done()
        door.open.set()
        await work
    assert [one.ok for one in await tries(world)] == [True]


async def test_a_waiting_turn_goes_on_though_somebody_is_still_being_told(world: World) -> None:
    door, agent = Door(), looping(wait_for_ci)
    session = await opened(world, agent)
    async with Desk(world, notifier=door).working(agent) as work:
        await until(lambda: door.came)
        await session.signal("ci", "green")
        assert (await session.result(1)).value == "green"
        door.open.set()
        await work
    assert not (await session.state()).untold


async def test_a_worker_that_hands_over_leaves_the_telling_to_the_next(world: World) -> None:
    door, ear, agent = Door(), Ear(), agent_of([say("one")])
    session = await opened(world, agent)
    desk = Desk(world, notifier=door)
    async with desk.working(agent, once=True) as work:
        await until(lambda: door.came)
        desk.control.hand_over()
        await work
    assert (await session.head()).is_ready(SystemClock().now())
    await Desk(world, notifier=ear).work(agent)
    assert ear.said == [(1, "settled", "done")]


def _plays() -> Sequence[tuple[str, Agent]]:
    scripted = agent_of([say("one", call("wire")), say("two")], wire)
    return [("scripted", scripted), ("waits", looping(wait_for_ci))]


@pytest.mark.parametrize(("name", "agent"), _plays())
async def test_whoever_dies_wherever_everything_is_told_at_least_once(name: str, agent: Agent) -> None:
    async with open_memory() as world:
        recorded, ear = RecordingGate(), Ear()
        await opened(world, agent)
        await Desk(world, gate=recorded, notifier=ear).work(agent)
        wanted = set(ear.said)
    assert Point.AFTER_TELLING in {crossing.point for crossing in recorded.crossings}
    for spot in spots(recorded.crossings):
        async with open_memory() as world:
            await opened(world, agent)
            mortal = MortalWorld(world)
            before, after = Ear(mortal=mortal), Ear()
            with pytest.raises(Killed):
                await Desk(mortal, gate=DeathGate(spot, mortal), name="dead", notifier=before).work(agent)
            heir = Desk(world, dead=frozenset({"dead"}), notifier=after)
            await heir.work(agent)
            told = [*before.heard, *after.heard]
            due = [one for one in await records(world) if isinstance(one, NoticeDue)]
            assert {one.id for one in told} == {f"default/s-1/{one.number}" for one in due}, spot
            heard = {(one.turn, one.event, one.status) for one in told}
            assert wanted <= heard or (1, "parked", "decision") in heard, spot
            assert not (await load_state(world, "s-1")).untold, spot


@asynccontextmanager
async def receiver(*answers: int) -> AsyncGenerator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """A server that keeps what is posted to it."""
    got: list[tuple[dict[str, str], bytes]] = []
    left = list(answers)

    async def take(request: Request) -> Response:
        got.append((dict(request.headers), await request.body()))
        return Response(status_code=left.pop(0) if left else 204)

    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(Starlette(routes=[Route("/told", take, methods=["POST"])]), close_s=1.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run_until_ended, [listener])
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/told", got
        server.end()


async def test_what_is_posted_is_signed_and_holds_ids_alone() -> None:
    async with receiver() as (url, got):
        assert await HttpNotifier(url, SECRET).tell(NOTICE) == ""
    [(headers, body)] = got
    assert json.loads(body) == {
        "id": "default/s-1/1",
        "tenant": "default",
        "session": "s-1",
        "agent": "tester",
        "turn": 1,
        "event": "settled",
        "status": "done",
        "at_s": 5.0,
    }
    now_s = SystemClock().now()
    assert verify(SECRET, headers, body, now_s) == ""
    assert "does not fit" in verify("another", headers, body, now_s)
    assert "does not fit" in verify(SECRET, headers, body + b" ", now_s)
    assert "does not fit" in verify(SECRET, {**headers, "webhook-id": "another"}, body, now_s)
    assert "more than" in verify(SECRET, headers, body, now_s + 400)
    assert "not signed" in verify(SECRET, {}, body, now_s)


async def test_a_refusal_and_silence_are_failures() -> None:
    async with receiver(500, 302) as (url, _):
        teller = HttpNotifier(url, SECRET)
        assert await teller.tell(NOTICE) == "it answered 500"
        assert await teller.tell(NOTICE) == "it answered 302"
    assert "Connect" in await teller.tell(NOTICE)


def test_a_signature_is_as_others_make_it() -> None:
    """The example of the specification's own reference implementation."""
    signed = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        1614265330,
    )
    assert signed[SIGNATURE] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    for secret in ("", "whsec_", "whsec_?"):
        with pytest.raises(BadInput):
            sign(secret, "id", b"", 1.0)


def program(tmp_path: Path, code: str) -> str:
    file = tmp_path / "told.py"
    file.write_text(code)
    return f"'{sys.executable}' '{file}'"


async def test_a_command_is_given_the_notice_and_the_signature_and_not_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_NOTIFY_SECRET", SECRET)
    kept = tmp_path / "kept.json"
    code = f"import json, os, sys; json.dump([dict(os.environ), sys.stdin.read()], open({str(kept)!r}, 'w'))"
    assert await CommandNotifier(program(tmp_path, code), SECRET).tell(NOTICE) == ""
    environ, body = json.loads(kept.read_text())
    assert json.loads(body)["id"] == "default/s-1/1"
    assert SECRET not in environ.values()
    headers = {name: environ[name.upper().replace("-", "_")] for name in sign(SECRET, "", b"", 0.0)}
    assert verify(SECRET, headers, body.encode(), SystemClock().now()) == ""


async def test_a_command_that_fails_hangs_or_is_missing_has_not_told(tmp_path: Path) -> None:
    assert (
        await CommandNotifier(program(tmp_path, "raise SystemExit(3)")).tell(NOTICE)
        == "it ended with status 3"
    )
    hung = CommandNotifier(program(tmp_path, "import time; time.sleep(600)"), timeout_s=0.5)
    assert "0.5 s" in await hung.tell(NOTICE)
    assert "cannot be run" in await CommandNotifier("/nowhere/at-all").tell(NOTICE)
    for command in ("", "'"):
        with pytest.raises(BadInput):
            CommandNotifier(command)


def test_the_settings_say_who_is_told() -> None:
    assert notifier_of(Settings()) is None
    assert isinstance(notifier_of(Settings(notify_command="true")), CommandNotifier)
    assert isinstance(notifier_of(Settings(notify_url="https://x", notify_secret=SECRET)), HttpNotifier)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(notify_url="https://x"), "notify_secret is not set"),
        (Settings(notify_url="https://x", notify_secret=SECRET, notify_command="true"), "only one"),
        (Settings(notify_url="ftp://x", notify_secret=SECRET), "http://"),
        (Settings(notify_url="https://x", notify_secret="whsec_?"), "base 64"),
        (Settings(notify_command="'"), "cannot be read"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_and_tell_no_secret(
    settings: Settings, said: str
) -> None:
    with pytest.raises(BadSettings, match=said) as caught:
        notifier_of(settings)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["notify_url", "notify_command", "notify_secret"])
def test_a_directory_s_own_file_does_not_say_who_is_told(name: str, tmp_path: Path) -> None:
    (tmp_path / "outlast.toml").write_text(f'{name} = "x"\n')
    with pytest.raises(BadSettings, match="may not set it"):
        read_settings({}, cwd=tmp_path)


async def test_a_worker_tells_whom_it_is_given(world: World, tmp_path: Path) -> None:
    ear, agent = Ear(), agent_of([say("one")])
    session = await opened(world, agent)
    config = WorkerConfig(tmp_path, notifier=ear)
    async with open_worker(world, {"tester": agent}, cast("Gateway", None), config) as worker:
        await worker.advance(session.id, limit_s=30.0)
    assert ear.said == [(1, "settled", "done")]
