"""Prompts that come with an image."""

import zlib
from base64 import b64encode
from struct import pack
from typing import Final

from outlast.attaching import Attachment
from outlast.gate import Point
from outlast.testing.adapter_contract.case import Case, Ground, promise
from outlast.testing.adapter_contract.kill_cases import LAST
from outlast.testing.adapter_contract.stage import Stage, prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step

SIDE: Final = 32


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))


def a_png() -> Attachment:
    """A real image, small enough that nobody scales it down: a square of one colour."""
    head = pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x20\x80\xc0" * SIDE) * SIDE
    body = _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return Attachment(b"\x89PNG\r\n\x1a\n" + body, "square.png")


IMAGE: Final = a_png()


def shown(stage: Stage) -> int:
    """How often the last request to the provider holds the image's own bytes."""
    return stage.last_body().replace(b"\\/", b"/").count(b64encode(IMAGE.data))


@promise(turns=2)
async def an_image_that_comes_with_a_prompt_reaches_the_model_and_stays(ground: Ground) -> None:
    async with ground.staged({"go": says("A square."), "next": says("As I said.")}) as stage:
        outcome = await stage.finish(await stage.send(prompt("go"), attachments=[IMAGE]))
        assert (outcome.status, str(outcome)) == ("done", "A square."), outcome.error
        assert shown(stage) == 1
        stage.move()
        assert str(await stage.finish(await stage.send(prompt("next")))) == "As I said."
        assert shown(stage) == 1, "it is remembered on a machine that has only the World"
        await stage.kept()


@promise()
async def an_image_is_still_there_when_the_worker_was_killed_right_after_the_prompt(ground: Ground) -> None:
    tool = ground.use("look", mark="a")
    async with ground.staged({"go": [Step(text="I look.", tools=(tool,)), *says(LAST)]}) as stage:
        await stage.send(prompt("go"), id="go", attachments=[IMAGE])
        await stage.killed_at(Spot(Point.AFTER_INTENT, "model"), Spot(Point.IN_EFFECT, "model", 2))
        outcome = await stage.finish(await stage.send(prompt("go"), id="go", attachments=[IMAGE]))
        assert (outcome.status, str(outcome)) == ("done", LAST), outcome.error
        assert shown(stage) == 1
        await stage.kept(lost_answers=1)


CASES: Final[tuple[Case, ...]] = (
    an_image_that_comes_with_a_prompt_reaches_the_model_and_stays,
    an_image_is_still_there_when_the_worker_was_killed_right_after_the_prompt,
)
IMAGES: Final = tuple(case.name for case in CASES)
