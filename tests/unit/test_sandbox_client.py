"""What a box says is judged: the client of one whose supervisor lies, or says nothing sound."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from outlast.errors import BoxError, BoxGone, Fenced, FileMissing
from outlast.sandbox import JobAsk, Spec
from outlast.workspaces.sandbox.client import HeldBox, hold
from outlast.workspaces.sandbox.inside.wire import Unpacker, pack

Answers = Callable[[dict[str, Any]], dict[str, object] | bytes]
HELLO: dict[str, object] = {"version": 1, "life": "one", "lived": 0}


class Liar(ByteStream):
    """A stream to a supervisor that says what `answers` says."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._asked = Unpacker()
        self._send, self._receive = anyio.create_memory_object_stream[bytes](1000)

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self._asked.feed(item)
        while (asked := self._asked.next()) is not None:
            said = self._answers(asked)
            self._send.send_nowait(said if isinstance(said, bytes) else pack({"id": asked["id"], **said}))

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._receive.receive()

    async def send_eof(self) -> None:
        self._send.close()

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self._send.close()
        self._receive.close()


@asynccontextmanager
async def held(answers: Answers, hello: dict[str, object] | None = None) -> AsyncGenerator[HeldBox]:
    def answer(asked: dict[str, Any]) -> dict[str, object] | bytes:
        match asked["op"]:
            case "hello":
                return HELLO if hello is None else hello
            case "leave":
                return {}
            case _:
                return answers(asked)

    async def dial() -> ByteStream:
        await anyio.lowlevel.checkpoint()
        return Liar(answer)

    async with hold(dial, Spec("box"), 3, {}) as box:
        yield box


def one(op: str, said: dict[str, object] | bytes) -> Answers:
    """Answers to `op` with this, and rightly to what comes before it."""
    return lambda asked: said if asked["op"] == op else {"stdin_at": 0}


async def output(box: HeldBox, offset: int = 0) -> list[tuple[int, bytes]]:
    job = await box.begin(JobAsk("job", ["true"]))
    return [piece async for piece in job.output("stdout", offset)]


async def wait(box: HeldBox) -> int:
    return await (await box.begin(JobAsk("job", ["true"]))).wait()


HELLOS = [
    {},
    {"life": 5, "lived": 0},
    {"life": "one"},
    {"life": "one", "lived": "yes"},
    {"life": b"one", "lived": 0},
]


@pytest.mark.parametrize("hello", HELLOS)
async def test_a_hello_that_is_none_is_an_error(hello: dict[str, object]) -> None:
    with pytest.raises(BoxError):
        async with held(one("none", {}), hello):
            pass


@pytest.mark.parametrize("said", [{"stdin_at": "0"}, {"stdin_at": b""}, {}])
async def test_a_begin_without_a_number_is_an_error(said: dict[str, object]) -> None:
    async with held(one("begin", said)) as box:
        with pytest.raises(BoxError, match="no sound stdin_at"):
            await box.begin(JobAsk("job", ["true"]))


async def test_output_does_not_go_back() -> None:
    async with held(one("output", {"at": 0, "data": b"x", "end": 0})) as box:
        with pytest.raises(BoxError, match="goes back"):
            await output(box, offset=5)


@pytest.mark.parametrize("said", [{"at": "5", "data": b"x"}, {"data": b"x"}, {"at": 5, "data": "text"}])
async def test_output_of_another_shape_is_an_error(said: dict[str, object]) -> None:
    async with held(one("output", said)) as box:
        with pytest.raises(BoxError, match="no sound"):
            await output(box)


async def test_a_status_that_is_no_number_is_an_error() -> None:
    async with held(one("wait", {"status": "well"})) as box:
        with pytest.raises(BoxError, match="no sound status"):
            await wait(box)


async def test_a_directory_without_end_is_an_error() -> None:
    async with held(one("list", {"entries": [], "more": 1, "last": ""})) as box:
        with pytest.raises(BoxError, match="without end"):
            await box.list("d")


async def test_a_directory_of_names_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.workspaces.sandbox.client.LIST_LIMIT", 10)
    numbers = iter(range(1000, 2000))

    def answer(_asked: dict[str, Any]) -> dict[str, object]:
        last = str(next(numbers))
        return {"entries": [[last, "file", 0o644, 0, 0, ""]], "more": 1, "last": last}

    async with held(answer) as box:
        with pytest.raises(BoxError, match="more than 10 names"):
            await box.list("d")


async def test_a_supervisor_that_is_silent_is_as_good_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.workspaces.sandbox.line._PATIENCE_S", 0.05)
    dials: list[int] = []

    async def dial() -> ByteStream:
        await anyio.lowlevel.checkpoint()
        dials.append(1)
        return Liar(lambda _asked: b"")

    with anyio.fail_after(5), pytest.raises(BoxGone, match="nothing in it answers"):
        async with hold(dial, Spec("box"), 3, {}):
            pass
    assert len(dials) == 2


@pytest.mark.parametrize("entry", [[], ["file"], ["file", 1, 2, 3, 4], [1, 2, 3, 4, 5], "file"])
async def test_an_entry_of_another_shape_is_an_error(entry: object) -> None:
    async with held(one("stat", {"entry": entry or [0]})) as box:
        with pytest.raises(BoxError):
            await box.stat("f")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/etc/passwd", 5])
async def test_a_name_that_leads_elsewhere_is_an_error(name: object) -> None:
    entries = [[name, "file", 0o644, 0, 0, ""]]
    async with held(one("list", {"entries": entries, "more": 0, "last": "z"})) as box:
        with pytest.raises(BoxError, match="nothing sound"):
            await box.list("d")


@pytest.mark.parametrize("item", [5, "text", [], ["name"]])
async def test_an_item_of_another_shape_is_an_error(item: object) -> None:
    async with held(one("list", {"entries": [item], "more": 0, "last": "z"})) as box:
        with pytest.raises(BoxError):
            await box.list("d")


async def test_a_file_that_never_stops_changing_is_an_error() -> None:
    numbers = iter(range(1000))
    async with held(lambda _asked: {"data": b"x", "same": str(next(numbers))}) as box:
        with pytest.raises(BoxError, match="changes all the time"):
            await box.read("f")


async def test_a_file_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.workspaces.sandbox.client.READ_LIMIT", 1 << 20)
    async with held(one("read", {"data": bytes(200_000), "same": "s"})) as box:
        with pytest.raises(BoxError, match="larger than"):
            await box.read("f")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"error": "no", "kind": "refused"}, BoxError),
        ({"error": "no", "kind": "never heard of"}, BoxError),
        ({"error": 5, "kind": "refused"}, BoxError),
        ({"error": "no", "kind": "fenced", "fence": 9}, Fenced),
        ({"error": "no", "kind": "fenced"}, BoxError),
        ({"error": "f", "kind": "absent"}, FileMissing),
    ],
)
async def test_errors_are_those_of_the_port(said: dict[str, object], error: type[Exception]) -> None:
    async with held(one("read", said)) as box:
        with pytest.raises(error):
            await box.read("f")


async def test_what_it_says_at_length_is_cut() -> None:
    async with held(one("read", {"error": "x" * 1_000_000, "kind": "refused"})) as box:
        with pytest.raises(BoxError) as raised:
            await box.read("f")
        assert len(str(raised.value)) < 3_000


async def test_a_stream_of_nonsense_is_given_up_after_some_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    async with held(one("read", b"\xff" * 100)) as box:
        with pytest.raises(BoxError, match="break again and again"):
            await box.read("f")


@pytest.mark.parametrize("number", [b"l1:ae", b"de", b"b1:x", b"s1:x", b"i--5;"])
async def test_an_answer_to_what_is_no_number_harms_nobody(number: bytes) -> None:
    body = b"ds2:id" + number + b"e"
    stray = len(body).to_bytes(4, "big") + body
    tries = iter(range(1000))

    def answer(asked: dict[str, Any]) -> bytes:
        return (stray if next(tries) == 0 else b"") + pack({"id": asked["id"], "data": b"", "same": "s"})

    async with held(answer) as box:
        assert await box.read("f") == b""


async def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def answer(question: dict[str, Any]) -> dict[str, object]:
        asked.append(question["offset"])
        return {"data": b"x", "same": "s", "size": 10 << 40}

    async with held(answer) as box:
        with pytest.raises(BoxError, match="larger than"):
            await box.read("f")
    assert asked == [0]


async def test_a_box_that_refuses_its_holder_is_as_good_as_gone() -> None:
    with pytest.raises(BoxGone, match="port 3128 is taken"):
        async with held(one("none", {}), {"error": "port 3128 is taken", "kind": "refused"}):
            pass


async def test_answers_to_nobody_are_passed_over() -> None:
    stray = pack({"id": 77, "data": b"stray"}) + pack({"data": b"stray"})
    async with held(lambda asked: stray + pack({"id": asked["id"], "data": b"", "same": "s"})) as box:
        assert await box.read("f") == b""


async def test_who_has_left_asks_nothing_more() -> None:
    async with held(one("none", {})) as box:
        pass
    with pytest.raises(BoxGone, match="its holder has left it"):
        await box.beat(1)
