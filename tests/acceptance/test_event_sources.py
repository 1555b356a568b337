"""`EventSource`s that lose their connections, while workers and the server itself are killed: nobody sees a word twice.

The two public bugs that streams of durable sessions had elsewhere are what each event is held to: text that is there
again after a connection came back, and the beginning of an answer, from an attempt that died, before that of the next.
"""

import json
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.from_thread
import anyio.to_thread
import httpx
import msgspec
import pytest

from outlast.adapter import Agent
from outlast.adapters.scripted import Scripted
from outlast.records.events import Event
from outlast.server.access import COOKIE
from outlast.session import Session
from outlast.watch import Screen, events
from outlast.world import START, Cursor
from tests.acceptance.browser import opened_browser
from tests.clients.stage import ROOT, Stage, stage
from tests.event_source import EventSource, cuts

pytestmark = [pytest.mark.anyio, pytest.mark.crash, pytest.mark.timeout(200)]
WORKER = ROOT / "tests" / "clients" / "other_words.py"
CUTS = 200
TURNS = 5
CALLS = 5
LIMIT_S = 150.0
BROWSER_CUTS = 12
"""It waits a second after each."""
LISTEN = """(turns) => new Promise((over, failed) => {
    const heard = [];
    let opened = 0;
    const source = new EventSource("/v1/sessions/s/events");
    source.onopen = () => opened++;
    source.onmessage = (message) => {
        heard.push(message.data);
        const event = JSON.parse(message.data);
        if (event.cursor !== message.lastEventId) failed(new Error(message.lastEventId));
        if (event.kind === "turn.settled" && event.turn === turns) {
            source.close();
            over([heard, opened]);
        }
    };
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) failed(new Error("it gave up")); };
})"""


class Server:
    """A real `outlast serve`, at one port through all its lives."""

    def __init__(self, place: Stage) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.killed = 0
        self._place = place
        self._process: anyio.abc.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it; returns when it answers."""
        argv = [sys.executable, "-m", "outlast.cli", "serve", "--json", "--port", str(self.port)]
        argv += ["--world", self._place.url, "--tokens", str(self._place.directory / "tokens.json")]
        environ = {"OUTLAST_DATA": str(self._place.directory / "server"), "OUTLAST_REQUESTS_PER_S": "0"}
        self._process = await anyio.open_process(argv, cwd=ROOT, env=environ, stderr=None)
        assert self._process.stdout is not None
        await self._process.stdout.receive()

    async def end(self) -> None:
        """Kill it."""
        assert self._process is not None
        with anyio.CancelScope(shield=True):
            self._process.send_signal(signal.SIGKILL)
            await self._process.aclose()

    async def strike(self, every_s: float) -> None:
        """Kill it again and again, and start it again."""
        while True:
            await anyio.sleep(every_s * (0.5 + self._place.draw.random()))
            with anyio.CancelScope(shield=True):
                await self.end()
                await self.start()
            self.killed += 1


@asynccontextmanager
async def serving(place: Stage) -> AsyncGenerator[Server]:
    server = Server(place)
    await server.start()
    try:
        yield server
    finally:
        await server.end()


class Strict(Screen):
    """A screen on which every text is one attempt's, from its beginning, each word once."""

    def apply(self, event: Event) -> None:
        super().apply(event)
        view = self.calls.get(event.call)
        if view is None or view.kind != "model":
            return
        check(view.shown.get("text", ""))
        if view.settled is not None:
            assert not view.shown
            check(view.settled.payload.value()["text"])


def check(text: str) -> None:
    words = [word.split(":") for word in text.split()]
    assert [number for _, number, _ in words] == [str(number) for number in range(len(words))], text
    assert len({(asked, who) for asked, _, who in words}) <= 1, text


def seen_of(found: Sequence[Event]) -> list[Cursor]:
    """The place of each event, those that a gap stands for too."""
    places: list[Cursor] = []
    for event in found:
        place = Cursor.parse(event.cursor)
        lost = event.facts["deltas"] if event.kind == "gap" else 1
        places += [Cursor(place.seq, place.index - back) for back in reversed(range(lost))]
    return places


def script(turn: int) -> str:
    tool = {"do": "tool", "name": "look", "arguments": {"at": f"place-{turn}"}}
    steps: list[dict[str, Any]] = []
    for call in range(CALLS):
        steps += [{"do": "model", "text": f"t{turn}c{call}"}, tool]
    return json.dumps(steps)


async def watch(source: EventSource) -> list[Event]:
    """Watch until the last turn is over, with everything that `EventSource` promises and no more."""
    found: list[Event] = []
    screen = Strict()
    async with aclosing(source.messages()) as messages:
        async for message in messages:
            event = msgspec.json.decode(message.data, type=Event)
            found.append(event)
            screen.apply(event)
            if event.kind == "turn.settled" and event.turn == TURNS:
                return found
    raise AssertionError(f"it gave up: {source.failed}")


async def test_nobody_sees_a_word_twice_whatever_is_cut_and_whoever_is_killed(
    tmp_path: Path, seed: int
) -> None:
    draw = cuts(seed, 700)
    until = chain(islice(draw, CUTS), repeat(1 << 40))
    seen: list[list[Event]] = []
    async with stage(tmp_path, seed=seed, program=WORKER) as place, serving(place) as server:
        session = await Session.open(place.world, "s", agent=Agent("teller", Scripted()))
        headers = {"authorization": f"Bearer {place.token}"}
        async with httpx.AsyncClient(
            base_url=server.url, headers=headers, timeout=30.0, trust_env=False
        ) as client:
            path = "/v1/sessions/s/events"
            often = EventSource(client, path, retry_s=0.0, cuts=until)
            seldom = EventSource(client, path, retry_s=0.05)

            async def see(source: EventSource) -> None:
                seen.append(await watch(source))

            with anyio.fail_after(LIMIT_S):
                async with anyio.create_task_group() as strikes:
                    strikes.start_soon(place.strike, 2.0)
                    strikes.start_soon(server.strike, 1.5)
                    async with anyio.create_task_group() as watchers:
                        watchers.start_soon(see, often)
                        watchers.start_soon(see, seldom)
                        for turn in range(1, TURNS + 1):
                            await session.send(script(turn))
                    strikes.cancel_scope.cancel()
        await check_all(place, seen)
        assert often.connections > CUTS
        assert place.killed >= 2
        assert server.killed >= 2
        assert seldom.connections > server.killed


async def test_the_event_source_of_a_browser_sees_no_word_twice_either(tmp_path: Path, seed: int) -> None:
    async with stage(tmp_path, seed=seed, program=WORKER) as place:
        session = await Session.open(place.world, "s", agent=Agent("teller", Scripted()))
        data, opened = list[str](), 0
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as strikes:
                strikes.start_soon(place.strike, 2.0)
                for turn in range(1, TURNS + 1):
                    await session.send(script(turn))
                data, opened = await anyio.to_thread.run_sync(browse, place)
                strikes.cancel_scope.cancel()
        found = [msgspec.json.decode(one, type=Event) for one in data]
        screen = Strict()
        for event in found:
            screen.apply(event)
        await check_all(place, [found])
        assert place.line.cut == BROWSER_CUTS
        assert opened > BROWSER_CUTS // 2, "some are cut before their first byte"


def browse(place: Stage) -> tuple[list[str], int]:
    """Watch in a browser until the last turn is over. Returns what was heard, and how often it connected."""
    with opened_browser() as browser:
        page = browser.new_page()
        page.context.add_cookies([{"name": COOKIE, "value": place.token, "url": place.address}])
        page.goto(f"{place.address}/openapi.json")
        anyio.from_thread.run_sync(
            lambda: place.line.cuts(BROWSER_CUTS, row=BROWSER_CUTS + 1, most=[2_000, 9_000])
        )
        heard, opened = page.evaluate(LISTEN, TURNS)
        return heard, opened


async def check_all(place: Stage, seen: Sequence[Sequence[Event]]) -> None:
    """Each watcher saw what a reader sees whom nobody disturbs, and has its screen."""
    whole: list[Event] = []
    screen = Screen()
    async with aclosing(events(place.world, "s", START)) as read:
        async for event in read:
            whole.append(event)
            screen.apply(event)
            if event.kind == "turn.settled" and event.turn == TURNS:
                break
    for found in seen:
        theirs = Screen()
        for event in found:
            theirs.apply(event)
        assert seen_of(found) == seen_of(whole)
        assert theirs.lines() == screen.lines()
    assert any(event.kind == "attempt.opened" for event in whole)
