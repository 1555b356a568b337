"""Made `v1/extra-network.json`: `python -m tests.histories.make_v1_network DIRECTORY`.

A session whose sandbox used a credential and was refused a host, which was asked for again by its next attempt; the
turn stays open. Written by hand. Kept to show where the file comes from.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from outlast.codec import encode_records
from outlast.records import (
    FORMAT,
    AnyRecord,
    AttemptOpened,
    NetworkAsked,
    Payload,
    PromptQueued,
    SessionOpened,
    TurnOpened,
    TurnSettled,
)
from outlast.world.commit import Commit, Header, make_commit
from tests.histories.stored import History, summary

SESSION = "extra-network"
PROMPT = Payload(json=msgspec.Raw(b'"go"'))
WHY = "evil.example:443 is not allowed in this sandbox"


def _commit(seq: int, fence: int, *records: AnyRecord) -> Commit:
    return make_commit(Header(seq, fence, FORMAT, len(records)), encode_records(list(records)), {})


def asked() -> History:
    """The whole story."""
    workspace = {"kind": "sandbox", "checkpoint": "call"}
    push = ("forge", "POST", "/site.git/git-receive-pack")
    return History.of(
        SESSION,
        [
            _commit(1, 0, SessionOpened(SESSION, "tester", "python", workspace=workspace)),
            _commit(2, 1, AttemptOpened("worker-1", at_s=1.0)),
            _commit(3, 1, PromptQueued("in-1", PROMPT), TurnOpened(1, "in-1", PROMPT, 2.0)),
            _commit(4, 1, NetworkAsked(1, "used", "forge.example", 443, *push, 200, at_s=3.0)),
            _commit(5, 1, NetworkAsked(1, "refused", "evil.example", 443, why=WHY, at_s=4.0)),
            _commit(6, 1, TurnSettled(1, "done", PROMPT)),
            _commit(7, 2, AttemptOpened("worker-2", at_s=5.0)),
            _commit(8, 2, PromptQueued("in-2", PROMPT), TurnOpened(2, "in-2", PROMPT, 6.0)),
            _commit(9, 2, NetworkAsked(2, "refused", "evil.example", 443, why=WHY, at_s=7.0)),
            _commit(10, 3, AttemptOpened("worker-3", at_s=8.0)),
            _commit(11, 3, NetworkAsked(2, "refused", "evil.example", 443, why=WHY, count=10, at_s=9.0)),
        ],
        {},
    )


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = asked()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
