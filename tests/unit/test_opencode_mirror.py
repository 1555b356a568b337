"""What of OpenCode's events comes into the log."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from outlast.adapter import Attempt
from outlast.adapters.opencode.client import Client
from outlast.adapters.opencode.events import path_of
from outlast.adapters.opencode.mirror import Mirror
from outlast.errors import HarnessError


class OpenCode:
    """Tells the events with these numbers, and keeps what is mirrored of them."""

    def __init__(self) -> None:
        self.numbers: Sequence[int] = ()
        self.mirrored: dict[str, list[str]] = {}

    async def history(self, known: Mapping[str, int]) -> Sequence[Mapping[str, Any]]:
        last = known.get("ses_1", -1)
        event: dict[str, Any] = {
            "id": "evt",
            "type": "message.updated.1",
            "data": {},
            "aggregate_id": "ses_1",
        }
        return [{**event, "seq": number} for number in self.numbers if number > last]

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        self.mirrored.setdefault(file, [])[position:] = lines


async def test_a_gap_in_the_events_ends_the_attempt_and_not_the_mirror_in_silence() -> None:
    opencode = OpenCode()
    mirror = Mirror(cast("Attempt", opencode), cast("Client", opencode), {})
    opencode.numbers = range(3)
    await mirror.take()
    assert len(opencode.mirrored[path_of("ses_1")]) == 3
    opencode.numbers = [4]
    with pytest.raises(HarnessError, match="ses_1 go on with number 4, where 3 is the next"):
        await mirror.take()
