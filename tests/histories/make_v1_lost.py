"""Made `v1/extra-lost.json`: `python -m tests.histories.make_v1_lost DIRECTORY`.

A session whose sandbox was lost twice: its model is told behind a result what is gone, then like a steer; the turn
stays open. Written by hand. Kept to show where the file comes from.
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
    CallIntent,
    CallOutcome,
    CallStarted,
    FilesLost,
    LostCall,
    Payload,
    PromptQueued,
    SessionOpened,
    Touched,
    TurnOpened,
)
from outlast.world.commit import Commit, Header, make_commit
from tests.histories.stored import History, summary

SESSION = "extra-lost"
PROMPT = Payload(json=msgspec.Raw(b'"go"'))
WRITE = Touched("a.py", ("a.py",))
BASH = Touched("make", (), more=True)


def _commit(seq: int, fence: int, *records: AnyRecord) -> Commit:
    return make_commit(Header(seq, fence, FORMAT, len(records)), encode_records(list(records)), {})


def _tool(call: int, ordinal: int, name: str, asked_by: int) -> CallIntent:
    return CallIntent(
        call, 1, "main", ordinal, "tool", name, PROMPT, "never", harness_id=f"c{call}", runs_in="harness",
        granted=True, asked_by=asked_by,
    )  # fmt: skip


def _ask(call: int, ordinal: int) -> CallIntent:
    return CallIntent(
        call, 1, "main", ordinal, "model", "m", PROMPT, "safe", match=f"m{call}", runs_in="provider"
    )


def lost() -> History:
    """The whole story."""
    workspace = {"kind": "sandbox", "checkpoint": "turn"}
    first = (LostCall(2, 1, "Write", WRITE),)
    again = (LostCall(3, 1, "Bash", BASH),)
    done = CallOutcome(1, 1, "ok", PROMPT, "main")
    return History.of(
        SESSION,
        [
            _commit(1, 0, SessionOpened(SESSION, "tester", "claude-code", workspace=workspace)),
            _commit(2, 1, AttemptOpened("worker-1", at_s=1.0)),
            _commit(3, 1, PromptQueued("in-1", PROMPT), TurnOpened(1, "in-1", PROMPT, 2.0), _ask(1, 0)),
            _commit(4, 1, done, _tool(2, 0, "Write", 1), _tool(3, 1, "Bash", 1), CallStarted(2, 1, "main")),
            _commit(5, 1, CallOutcome(2, 1, "ok", PROMPT, "main", touched=WRITE), CallStarted(3, 1, "main")),
            _commit(6, 2, AttemptOpened("worker-2", at_s=3.0)),
            _commit(7, 2, FilesLost(1, first, text="[outlast] Write a.py is gone.", behind=3, at_s=4.0)),
            _commit(8, 2, CallOutcome(3, 1, "ok", PROMPT, "main", touched=BASH), _ask(4, 1)),
            _commit(9, 2, CallOutcome(4, 1, "ok", PROMPT, "main")),
            _commit(10, 3, AttemptOpened("worker-3", at_s=5.0)),
            _commit(11, 3, FilesLost(1, again, 2, "[outlast] Bash make is gone.", at_s=6.0)),
        ],
        {},
    )


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = lost()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
