import asyncio

import pytest

from outlast.engine.ending import Ending


async def _waiting(ending: Ending[str], count: int) -> "list[asyncio.Task[str]]":
    tasks = [asyncio.get_running_loop().create_task(ending.wait()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_everybody_who_waits_is_given_the_result() -> None:
    ending = Ending[str]()
    tasks = await _waiting(ending, 3)
    ending.end("done")
    assert await asyncio.gather(*tasks) == ["done"] * 3
    assert await ending.wait() == "done", "also who comes later"


async def test_who_is_cancelled_while_waiting_leaves_the_others_waiting() -> None:
    ending = Ending[str]()
    gone, stays = await _waiting(ending, 2)
    gone.cancel()
    await asyncio.wait({gone})
    assert not ending.over
    ending.end("done")
    assert await stays == "done"
    assert gone.cancelled()


async def test_the_first_word_stands() -> None:
    ending = Ending[str]()
    ending.fail(ValueError("first"))
    ending.end("second")
    for _ in range(2):
        with pytest.raises(ValueError, match="first"):
            await ending.wait()
