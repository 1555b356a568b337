"""Files with a prompt, over HTTP and on the page: sent in the request, shown where the turn begins."""

import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from outlast.attaching import BYTES_LIMIT
from outlast.testing.adapter_contract.attachment_cases import IMAGE
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.acceptance.browser import opened_browser, picture
from tests.acceptance.door import Door, opened_door
from tests.acceptance.stall import says
from tests.acceptance.stand import Stand, opened_stand, visited

SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
SENT = {"name": "square.png", "base64": b64encode(IMAGE.data).decode()}


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with open_memory() as memory:
        yield memory


@pytest.fixture
async def door(world: World, tmp_path: Path) -> AsyncGenerator[Door]:
    async with opened_door(world, tmp_path) as opened:
        yield opened


async def test_files_of_a_prompt_are_named_with_its_turn_and_their_bytes_are_there(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    svg = {"name": "drawing.svg", "base64": b64encode(SVG).decode()}
    await door.post("/v1/sessions/s/turns", {"text": "[]", "id": "p1", "attachments": [SENT, svg]})
    await door.work()
    turn = await door.get("/v1/sessions/s/turns/1")
    assert [(one["name"], one["media_type"], one["size"]) for one in turn["attachments"]] == [
        ("square.png", "image/png", len(IMAGE.data)),
        ("drawing.svg", "image/svg+xml", len(SVG)),
    ]
    assert turn["status"] == "failed", "the scripted harness takes no files"
    assert "'square.png'" in turn["error"]
    image, drawing = [
        await door.ask("GET", f"/v1/sessions/s/blobs/{one['ref']}") for one in turn["attachments"]
    ]
    assert (image.content, image.headers["content-type"]) == (IMAGE.data, "image/png")
    assert (drawing.content, drawing.headers["content-type"]) == (SVG, "application/octet-stream")
    assert drawing.headers["content-disposition"] == "attachment"
    for answer in (image, drawing):
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([{"base64": "no base 64!"}], "base64"),
        ([{"base64": ""}], "it is empty"),
        ([{"base64": "aGVsbG8=", "media_type": "image/png"}], "its bytes are no image/png"),
        ([{"url": "http://example.com/a.png"}], "url"),
        ([SENT] * 21, "length <= 20"),
        ([{"base64": b64encode(bytes(BYTES_LIMIT + 1)).decode()}], "more than 3,932,160 bytes"),
    ],
)
async def test_what_cannot_come_with_a_prompt_is_refused_and_said(
    door: Door, files: list[dict[str, str]], reason: str
) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    answer = await door.ask("POST", "/v1/sessions/s/turns", {"text": "look", "attachments": files})
    assert answer.status_code == 400
    assert reason in answer.json()["error"]
    assert await door.world.inputs("s") == []


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def stand() -> Generator[Stand]:
    with opened_stand() as stand:
        yield stand


@pytest.mark.crash
@pytest.mark.timeout(120)
def test_the_page_sends_files_and_shows_an_image_in_the_conversation(
    browser: Browser, stand: Stand, tmp_path: Path
) -> None:
    for name, data in (("square.png", IMAGE.data), ("drawing.svg", SVG), ("unwanted.txt", b"no")):
        (tmp_path / name).write_bytes(data)
    stand.open("pricing-3f2a", "Hello.", settings={"script": [says("Hello.")]})
    with visited(browser, stand, "#/sessions/pricing-3f2a") as page:
        expect(page.get_by_text("Turn 1 done")).to_be_visible()
        page.get_by_label("Attach files").set_input_files([*sorted(tmp_path.glob("*.*"))])
        page.get_by_role("button", name="Remove unwanted.txt").click()
        page.get_by_role("textbox", name="Prompt").fill("What is this?")
        page.get_by_role("button", name="Send").click()
        turn = page.get_by_role("region", name="Turn 2")
        image = turn.get_by_role("img", name="square.png")
        expect(image).to_have_js_property("naturalWidth", 32)
        expect(turn.get_by_role("img")).to_have_count(1)
        drawing = turn.get_by_role("link", name=re.compile("^drawing.svg"))
        with page.expect_download() as kept:
            drawing.click()
        assert Path(kept.value.path()).read_bytes() == SVG
        expect(page.get_by_role("list", name="Files to send").get_by_role("listitem")).to_have_count(0)
        picture(page, "page-attachments")
