"""Images that a tool returns: in a blob, for every model and program, and the same when replayed."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest
from mcp_types import ImageContent, TextContent

from outlast import image
from outlast.adapter import Agent, ToolResult
from outlast.adapters.assistant import Assistant
from outlast.adapters.claude_code.results import of_ours
from outlast.adapters.conversation import Conversation
from outlast.adapters.python import IO, Loop
from outlast.engine.effects import result_of
from outlast.errors import ToolError
from outlast.model import ImagePart, Message, Parts, Request, TextPart, ToolMessage, tool_result, user
from outlast.models import anthropic_body, openai_body
from outlast.parts import IMAGE_LIMIT, IMAGES_LIMIT
from outlast.records import CallOutcome, Set
from outlast.squeezing import unsqueeze
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Done, NotDone, ToolIO, Verdict, tool
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.gateway.reference import MemoryAttempt
from tests.gateway.stage import RawProvider, Reply, stage
from tests.unit.engine_desk import Desk, opened, records
from tests.unit.listed_model import Listed, says, wants
from tests.unit.test_gateway_tools import client_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
DATA = b64encode(PNG).decode()
SHOWN: Parts = (TextPart("The chart:"), ImagePart(PNG, "image/png"))


@tool(replay="safe")
async def chart(io: ToolIO) -> object:
    """Draw a chart."""
    return ["The chart:", image(PNG)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_memory() as made:
        yield made


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (image(PNG), SHOWN[1:]),
        (["The chart:", image(PNG)], SHOWN),
        ((TextPart("The chart:"), image(PNG)), SHOWN),
        (["The chart:"], None),
        ({"kind": "image", "url": "https://x/y"}, None),
        (None, None),
    ],
)
def test_an_image_or_a_list_of_texts_and_images_is_shown_and_nothing_else(
    value: object, parts: Parts | None
) -> None:
    assert result_of("chart", value) == ToolResult("ok", value if parts is None else parts)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"chart": image(PNG)}, "within something else"),
        ([["a", image(PNG)]], "within something else"),
        ([image(PNG), 7], "a value of type int"),
        ([image(PNG)] * (IMAGES_LIMIT + 1), "are more than 20"),
        (image(PNG + bytes(IMAGE_LIMIT)), "scale it down"),
        (image(b"%PDF", "application/pdf"), "give PNG, JPEG, GIF or WebP"),
        (ImagePart(url="https://x/y"), "fetch it first"),
        (["half of a pair: \ud800", image(PNG)], "not Unicode"),
    ],
)
def test_what_cannot_be_shown_says_what_to_do(value: object, why: str) -> None:
    result = result_of("chart", value)
    assert result.status == "error"
    assert "chart ran to its end, but its result is lost" in str(result.value)
    assert why in str(result.value)


async def test_an_image_stands_in_a_blob_and_not_in_a_commit(world: World) -> None:
    agent = Agent("tester", Assistant(Listed(says("", wants("chart")), says("It rises."))), tools=[chart])
    session = await opened(world, agent)
    await Desk(world).work(agent)
    assert str(await session.result(1)) == "It rises."
    (outcome,) = [one for one in await records(world) if isinstance(one, CallOutcome) and one.shows]
    commits = await world.commits("s-1")
    assert not [commit for commit in commits if DATA.encode()[:64] in unsqueeze(commit.body)]
    assert any(outcome.result.ref in commit.header.refs for commit in commits)
    assert DATA in str(await session.value(outcome.result))


async def test_the_model_of_a_ready_made_loop_sees_it_also_in_the_next_turn(world: World) -> None:
    model = Listed(says("", wants("chart")), says("It rises."), says("As I said."))
    agent = Agent("tester", Assistant(model), tools=[chart])
    session = await opened(world, agent, "s-1", "Look", "And?")
    await Desk(world).work(agent)
    assert str(await session.result(2)) == "As I said."
    for request in model.requests[1:]:
        (message,) = [one for one in request.messages if isinstance(one, ToolMessage)]
        assert message.results[0].parts == SHOWN


def test_an_image_does_not_fill_the_context_with_its_bytes() -> None:
    large = ImagePart(bytes(3_000_000), "image/png")
    for message in (user(large), ToolMessage((tool_result("t", [large, large]),))):
        talk = Conversation([message])
        assert talk.is_beyond(1_000)
        assert not talk.is_beyond(4_000)


def asked() -> Request:
    messages: list[Message] = [user("Look"), says("", wants("chart", id="t-1")).message]
    return Request(model="m", messages=(*messages, ToolMessage((tool_result("t-1", SHOWN),))))


def test_anthropic_gets_it_in_the_result() -> None:
    body = anthropic_body.body_of(asked(), max_tokens=10, cache=False)
    (result,) = body["messages"][-1]["content"]
    assert result["type"] == "tool_result"
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert result["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": DATA}


def test_openai_gets_it_after_the_results_since_those_take_text_only() -> None:
    result, after = openai_body.body_of(asked(), max_tokens=9, most="max_tokens")["messages"][-2:]
    assert (result["role"], result["content"]) == ("tool", "The chart:")
    assert after["role"] == "user"
    assert after["content"][-1]["image_url"]["url"] == f"data:image/png;base64,{DATA}"


async def test_a_program_gets_it_over_mcp() -> None:
    @tool
    async def draw(io: ToolIO) -> object:
        """Draw."""
        return ToolResult("ok", SHOWN)  # as the engine gives it

    async with (
        stage(RawProvider(Reply()), attempt=MemoryAttempt({"draw": draw})) as on,
        client_of(on) as session,
    ):
        words, picture = (await session.call_tool("draw", {})).content
    assert words == TextContent(text="The chart:")
    assert isinstance(picture, ImageContent)
    assert (picture.data, picture.mime_type) == (DATA, "image/png")


def test_claude_code_reads_a_result_that_it_missed_as_it_would_have_read_it() -> None:
    content = of_ours(SHOWN, is_error=False).content
    source = {"type": "base64", "media_type": "image/png", "data": DATA}
    assert content == [{"type": "text", "text": "The chart:"}, {"type": "image", "source": source}]
    assert of_ours("no", is_error=True).content == "no"


async def test_a_result_whose_edits_were_not_kept_names_its_images(world: World) -> None:
    @tool
    async def late(io: ToolIO) -> object:
        """Edit what changes meanwhile."""
        await io.docs.edit("plan", Set(1), if_version=0)
        begun.set()
        await edited.wait()
        return ["The chart:", image(PNG)]

    async def loop(io: IO, prompt: str) -> object:
        async def edit(lane: IO) -> None:
            await begun.wait()
            await lane.docs.edit("plan", Set(2))
            edited.set()

        try:
            await io.gather(lambda lane: lane.tool("late"), edit)
        except ToolError as error:
            return str(error)
        return None

    begun, edited = asyncio.Event(), asyncio.Event()
    agent = Agent("tester", Loop(loop), tools=[late])
    session = await opened(world, agent)
    await Desk(world).work_once(agent)
    said = str(await session.result(1))
    assert "its edits were not kept" in said
    assert f"(image/png, {len(PNG)} bytes)" in said


async def test_a_death_at_every_point_leaves_the_loop_the_same_bytes() -> None:
    async def verify(io: ToolIO) -> Verdict:
        return Done(image(PNG)) if outside else NotDone()

    @tool(verify=verify)
    async def scan(io: ToolIO) -> object:
        """Scan something once."""
        outside.append(io.call)
        return image(PNG)

    async def loop(io: IO, prompt: str) -> object:
        seen: Sequence[object] = [*await io.tool(chart), *await io.tool(scan)]
        return [part.data == PNG for part in seen if isinstance(part, ImagePart)]

    async def life(world: World, name: str, death: Spot | None = None) -> list[Spot]:
        mortal, record = MortalWorld(world), RecordingGate()
        gate = record if death is None else DeathGate(death, mortal, inner=record)
        with suppress(Killed):
            await Desk(mortal, gate=gate, name=name, dead=frozenset({"w-1"})).work(agent)
        return spots(record.crossings)

    agent = Agent("tester", Loop(loop), tools=[chart, scan])
    outside: list[int] = []
    async with open_memory() as world:
        await opened(world, agent)
        where = await life(world, "w-1")
    for spot in where:
        outside.clear()
        async with open_memory() as world:
            session = await opened(world, agent)
            await life(world, "w-1", spot)
            await life(world, "w-2")
            assert (await session.result(1)).value == [True, True], str(spot)
            assert len(outside) == 1, str(spot)
