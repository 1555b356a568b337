"""What is watched over HTTP: cursors, silences, ends, and clients that do not read."""

import socket
from contextlib import ExitStack, aclosing
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from outlast.records.events import Event
from outlast.server.feed import Bounds
from outlast.session import Session
from outlast.watch import events
from outlast.world import START, Cursor, World
from outlast.worlds.memory import open_memory
from tests.event_source import EventSource, Message, cuts
from tests.property.feeding import Writer
from tests.watching import Watched, watched

pytestmark = pytest.mark.anyio
STREAM = {"accept": "text/event-stream"}


async def some(source: EventSource, count: int) -> list[Message]:
    """So many messages, as they come."""
    found: list[Message] = []
    with anyio.fail_after(20):
        async with aclosing(source.messages()) as messages:
            while len(found) < count:
                found.append(await anext(messages))
    return found


async def whole(world: World, last: Cursor) -> list[Event]:
    """What a reader sees that nobody disturbs."""
    found: list[Event] = []
    async with aclosing(events(world, "s", START)) as read:
        async for event in read:
            found.append(event)
            if Cursor.parse(event.cursor) >= last:
                return found
    return found


async def test_who_loses_the_connection_again_and_again_sees_every_event_once(
    tmp_path: Path, seed: int
) -> None:
    async with open_memory() as world, watched(world, tmp_path, bounds=Bounds(window_events=40)) as server:
        writer = Writer(world)
        await writer.open()
        source = EventSource(server.client, "/v1/sessions/s/events", retry_s=0.0, cuts=cuts(seed, 1_500))
        seen: list[Event] = []

        async def write() -> None:
            for number in range(300):
                await writer.publish(number % 3 + 1, "ä€𝄞")
                await writer.commit(number % 4, number % 2)
                await anyio.lowlevel.checkpoint()
            await writer.commit(1)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks, aclosing(source.messages()) as messages:
                tasks.start_soon(write)
                async for message in messages:
                    seen.append(msgspec.json.decode(message.data, type=Event))
                    if seen[-1].cursor == "303.0":
                        break
        assert source.connections > 50
        assert seen == await whole(world, Cursor(303, 0))


@pytest.mark.parametrize(
    ("cursor", "status"),
    [("999.0", 400), ("3", 400), ("-1.0", 400), ("1.0\u0660", 400), ("1.1099511627776", 200), ("2.0", 200)],
)
async def test_a_cursor_that_the_session_never_gave_is_refused_in_words(
    tmp_path: Path, cursor: str, status: int
) -> None:
    async with open_memory() as world, watched(world, tmp_path) as server:
        await Writer(world).open()
        for headers in ({}, STREAM):
            async with server.client.stream(
                "GET", "/v1/sessions/s/events", params={"after": cursor}, headers=headers
            ) as answer:
                assert answer.status_code == status
                if status == 400:
                    error = msgspec.json.decode(await answer.aread(), type=dict[str, str])["error"]
                    assert "cursor" in error


async def test_the_last_event_id_goes_before_the_address(tmp_path: Path) -> None:
    async with open_memory() as world, watched(world, tmp_path) as server:
        await Writer(world).open()
        page = await server.client.get("/v1/sessions/s/events?after=0.0", headers={"last-event-id": "1.0"})
        assert [event["cursor"] for event in page.json()["events"]] == ["2.0"]
        assert page.json()["next"] == "2.0"


async def test_a_session_that_is_erased_ends_an_event_source_for_good(tmp_path: Path) -> None:
    async with open_memory() as world, watched(world, tmp_path) as server:
        await Writer(world).open()
        source = EventSource(server.client, "/v1/sessions/s/events", retry_s=0.0)
        names: list[str] = []
        async with aclosing(source.messages()) as messages:
            with anyio.fail_after(10):
                async for message in messages:
                    names.append(message.name)
                    if len(names) == 2:
                        await world.erase("s")
        assert names == ["message", "message", "failed"]
        assert source.failed.startswith("404")


async def test_the_stream_of_a_turn_ends_with_it_and_is_not_asked_for_again(tmp_path: Path) -> None:
    async with open_memory() as world, watched(world, tmp_path) as server:
        writer = Writer(world)
        await writer.open()
        await writer.commit(2)
        source = EventSource(server.client, "/v1/sessions/s/turns/1/events", retry_s=0.0)
        kinds: list[str] = []
        async with aclosing(source.messages()) as messages:
            with anyio.fail_after(10):
                async for message in messages:
                    kinds.append(msgspec.json.decode(message.data, type=Event).kind)
                    if len(kinds) == 4:
                        await writer.settle()
                        await writer.commit(1)
        assert kinds == ["turn.opened", "attempt.opened", "turn.parked", "turn.parked", "turn.settled"]
        assert source.failed.startswith("204")
        page = (await server.client.get("/v1/sessions/s/turns/1/events")).json()
        assert [event["kind"] for event in page["events"]] == kinds
        assert (await server.client.get("/v1/sessions/s/turns/0/events", headers=STREAM)).status_code == 400


async def test_a_turn_that_waits_can_be_followed_already_and_one_beyond_is_not_there(tmp_path: Path) -> None:
    async with open_memory() as world, watched(world, tmp_path) as server:
        session = await Session.open(world, "s", agent="a")
        await session.send("one")
        await session.send("two")
        for turn, status in ((1, 200), (2, 200), (3, 404)):
            path = f"/v1/sessions/s/turns/{turn}/events"
            async with server.client.stream("GET", path, headers=STREAM) as answer:
                assert answer.status_code == status


async def test_the_list_is_followed_changes_and_erasures_too(tmp_path: Path) -> None:
    async with open_memory() as world, watched(world, tmp_path) as server:
        await Writer(world, "one").open()
        two = Writer(world, "two")
        await two.open()
        source = EventSource(server.client, "/v1/changes", retry_s=0.0)
        with anyio.fail_after(10):
            async with aclosing(source.messages()) as messages:
                first = [msgspec.json.decode((await anext(messages)).data) for _ in range(2)]
                assert {row["session"] for row in first} == {"one", "two"}
                await two.commit(1)
                row = msgspec.json.decode((await anext(messages)).data)
                assert (row["session"], row["seq"]) == ("two", 3)
                await world.erase("one")
                row = msgspec.json.decode((await anext(messages)).data)
                assert row == {"session": "one", "erased": True}


async def test_streams_end_in_order_with_the_server_so_that_who_reads_comes_back(tmp_path: Path) -> None:
    async with open_memory() as world, watched(world, tmp_path) as server:
        await Writer(world).open()
        async with server.client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as answer:
            pieces = answer.aiter_raw()
            await anext(pieces)
            server.hub.end()
            with anyio.fail_after(5):  # and no error: its last chunk came
                async for _ in pieces:
                    pass


async def test_clients_that_do_not_read_hold_little_and_are_hung_up_on_while_others_see_all(
    tmp_path: Path,
) -> None:
    async with open_memory() as world, watched(world, tmp_path, send_s=0.5) as server:
        writer = Writer(world)
        await writer.open()
        source = EventSource(server.client, "/v1/sessions/s/events")
        with ExitStack() as opened, anyio.fail_after(60):
            deaf = [opened.enter_context(_deaf(server, writer)) for _ in range(20)]
            async with aclosing(source.messages()) as messages:
                while server.connections() > 1 or writer.seq < 200:
                    await writer.publish(20, "x" * 2_000)
                    await writer.commit(1)
                    while (
                        msgspec.json.decode((await anext(messages)).data, type=Event).cursor
                        != f"{writer.seq}.0"
                    ):
                        pass
            for one in deaf:
                await anyio.to_thread.run_sync(_until_closed, one)
        assert source.connections == 1


def _deaf(server: Watched, writer: Writer) -> socket.socket:
    """Asks and reads nothing."""
    asks = socket.socket()
    asks.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    asks.connect(("127.0.0.1", server.port))
    token = server.client.headers["authorization"]
    asks.sendall(
        f"GET /v1/sessions/{writer.session}/events HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n"
        f"authorization: {token}\r\n\r\n".encode()
    )
    return asks


def _until_closed(deaf: socket.socket) -> None:
    """What was on its way can still be read; then the other end is found to have hung up."""
    deaf.settimeout(20.0)
    read = 0
    try:
        while piece := deaf.recv(65_536):
            read += len(piece)
    except ConnectionResetError:
        pass
    assert read < 4 * 1024 * 1024
