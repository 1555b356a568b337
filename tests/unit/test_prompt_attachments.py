"""Files that come with a prompt: kept with it, named to watchers, and given to the harness or refused before it."""

from pathlib import Path

import msgspec
import pytest

from outlast import Attachment
from outlast.adapter import Agent
from outlast.adapters.assistant import Assistant
from outlast.adapters.python import IO, Loop
from outlast.attaching import BYTES_LIMIT, COUNT_LIMIT, TOTAL_LIMIT, image_type
from outlast.codec import decode_input, format_of
from outlast.errors import BadAttachment, InputConflict
from outlast.model import Answer, AssistantMessage, ImagePart, Request, Show, TextPart, UserMessage, quiet
from outlast.records import FORMAT, PLAIN, Attached, Prompt, PromptQueued, TurnOpened
from outlast.records.events import face
from outlast.squeezing import unsqueeze
from outlast.testing.adapter_contract.attachment_cases import a_png
from outlast.world import World
from tests.unit.engine_desk import Desk, opened, records

PNG = a_png()
NOTES = Attachment(b"two\nlines\n", "notes.md")


async def look(io: IO, prompt: str) -> object:
    return [prompt, *([one.name, one.media_type, len(one.data)] for one in await io.attachments())]


AGENT = Agent("tester", Loop(look, attachments=("image/*", "text/*")))


async def test_the_harness_gets_the_bytes_that_were_sent(world: World) -> None:
    session = await opened(world, AGENT, "s-1", "plain")
    await session.send("look", id="in-9", attachments=[PNG, NOTES])
    await Desk(world).work(AGENT)
    assert (await session.result(2)).value == [
        "look",
        ["square.png", "image/png", len(PNG.data)],
        ["notes.md", "text/markdown", len(NOTES.data)],
    ]


async def test_only_a_session_with_attachments_needs_a_newer_outlast(world: World) -> None:
    plain = await opened(world, AGENT, "s-1", "one")
    await Desk(world).work(AGENT)
    assert (await plain.head()).format == PLAIN
    await plain.send("two", attachments=[PNG])
    await Desk(world).work(AGENT)
    assert (await plain.head()).format == FORMAT
    assert [format_of([one]) for one in await records(world) if isinstance(one, TurnOpened)] == [
        PLAIN,
        FORMAT,
    ]


async def test_an_older_outlast_leaves_such_a_prompt_where_it_is(world: World) -> None:
    session = await opened(world, AGENT, "s-1")
    await session.send("look", id="in-9", attachments=[PNG])
    (new,) = [one for one in await world.inputs("s-1") if one.id == "in-9"]
    body = unsqueeze(new.body)
    assert isinstance(decode_input(body), Prompt)

    class Older(msgspec.Struct, tag_field="kind", tag="prompt", forbid_unknown_fields=True):
        text: str
        sent_at_s: float = 0.0
        alone: bool = False
        traceparent: str = ""

    with pytest.raises(msgspec.ValidationError, match="attachments"):
        msgspec.json.decode(body, type=Older)


async def test_the_same_id_with_another_file_is_another_prompt(world: World) -> None:
    session = await opened(world, AGENT, "s-1")
    for _ in range(2):
        assert (await session.send("look", id="in-9", attachments=[PNG])).input == "in-9"
    for other in ([], [NOTES], [PNG, NOTES], [Attachment(PNG.data, "other.png")]):
        with pytest.raises(InputConflict):
            await session.send("look", id="in-9", attachments=other)
    await Desk(world).work(AGENT)
    await session.send("look", id="in-9", attachments=[PNG])
    assert await world.inputs("s-1") == [], "it was consumed, and is the same turn"


async def test_watchers_are_told_of_the_files_and_find_their_bytes(world: World) -> None:
    session = await opened(world, AGENT, "s-1")
    await session.send("look", id="in-9", attachments=[PNG])
    await Desk(world).work(AGENT)
    said = [one for one in await records(world) if isinstance(one, PromptQueued | TurnOpened)]
    told = [one for one in said if one.input == "in-9"]
    assert len(told) == 2
    for record in told:
        (fact,) = face(record, "1.0", 1).facts["attachments"]
        assert msgspec.convert(fact, Attached) == Attached(
            "square.png", "image/png", len(PNG.data), fact["ref"]
        )
        assert unsqueeze((await world.get_many("s-1", [fact["ref"]]))[fact["ref"]]) == PNG.data


async def test_a_file_that_the_harness_does_not_take_ends_the_turn_before_it_begins(world: World) -> None:
    begun: list[str] = []

    async def loop(io: IO, prompt: str) -> object:
        begun.append(prompt)
        return prompt

    agent = Agent("tester", Loop(loop, attachments=("text/*",)))
    session = await opened(world, agent, "s-1")
    turn = await session.send("look", attachments=[NOTES, PNG])
    await session.send("and on")
    await Desk(world).work(agent)
    outcome = await turn.result()
    assert outcome.status == "failed"
    assert "'square.png'" in outcome.error
    assert "python takes text/*" in outcome.error
    assert begun == ["go", "and on"], "the session goes on"


class Seeing:
    """A model that keeps what it is asked."""

    name, provider, context_tokens = "seeing", "none", 0

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def versions(self) -> dict[str, str]:
        return {}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        self.asked.append(request)
        return Answer(message=AssistantMessage((TextPart("A square."),)), stop="end", model="seeing")


async def test_the_ready_made_loop_shows_its_model_the_image_and_the_text(world: World) -> None:
    model = Seeing()
    agent = Agent("tester", Assistant(model))
    session = await opened(world, agent, "s-1", "go")
    await session.send("look", attachments=[PNG, NOTES])
    await session.send("again")
    await Desk(world).work(agent)
    for request in model.asked[1:]:
        (said,) = [
            one
            for one in request.messages
            if isinstance(one, UserMessage) and one.parts[-1] == TextPart("look")
        ]
        assert said.parts[0] == ImagePart(PNG.data, "image/png")
        assert said.parts[1] == TextPart('<attachment name="notes.md">\ntwo\nlines\n\n</attachment>')
    assert len(model.asked) == 3


@pytest.mark.parametrize(
    ("data", "name", "media_type", "reason"),
    [
        (b"", "a.txt", "", "it is empty"),
        (b"GIF89a", "a.png", "image/png", "its bytes are no image/png"),
        (b"plain", "a.pdf", "application/pdf", "its bytes are no application/pdf"),
        (b"\xff\xfe\x00", "a.txt", "text/plain", "its bytes are no text/plain"),
        (b"x", "../a.txt", "", "no name of a file"),
        (b"x", "a\n.txt", "", "no name of a file"),
        (b"x", "a" * 201, "", "no name of a file"),
        (b"x", "a.txt", "text", "no media type"),
        (b"x" * (BYTES_LIMIT + 1), "a.txt", "", "more than 3,932,160 bytes"),
    ],
)
def test_what_cannot_be_sent_is_said(data: bytes, name: str, media_type: str, reason: str) -> None:
    with pytest.raises(BadAttachment, match=reason):
        Attachment(data, name, media_type)


@pytest.mark.parametrize(
    ("data", "name", "media_type"),
    [
        (PNG.data, "", "image/png"),
        (PNG.data, "wrong.txt", "image/png"),
        (b"%PDF-1.7", "a.bin", "application/pdf"),
        (b"# hello", "a.md", "text/markdown"),
        (b"hello", "", "text/plain"),
        (b"hello", "fake.png", "text/plain"),
        (b"\x00\x01", "a", "application/octet-stream"),
    ],
)
def test_what_a_file_is_is_seen_from_its_bytes_and_then_its_name(
    data: bytes, name: str, media_type: str
) -> None:
    assert Attachment(data, name).media_type == media_type


async def test_too_many_and_too_large_together_are_refused_and_nothing_is_sent(world: World) -> None:
    session = await opened(world, AGENT, "s-1")
    before = len(await world.inputs("s-1"))
    with pytest.raises(BadAttachment, match="at most 20"):
        await session.send("look", attachments=[NOTES] * (COUNT_LIMIT + 1))
    big = Attachment(b"x" * BYTES_LIMIT, "big.txt")
    with pytest.raises(BadAttachment, match="more than 16,777,216 bytes"):
        await session.send("look", attachments=[big] * (TOTAL_LIMIT // BYTES_LIMIT + 1))
    assert len(await world.inputs("s-1")) == before


def test_a_file_is_read_under_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "square.png"
    path.write_bytes(PNG.data)
    assert Attachment.read(path) == PNG
    with pytest.raises(BadAttachment, match="No such file"):
        Attachment.read(tmp_path / "none.png")


def test_only_raster_images_are_shown_by_a_browser() -> None:
    assert image_type(PNG.data) == "image/png"
    assert image_type(b"<svg xmlns='http://www.w3.org/2000/svg'/>") == ""
    assert image_type(b"<html>") == ""
