"""Made `v1/extra-told.json`: `python -m tests.histories.make_v1_told DIRECTORY`.

A session whose harness was told that two of its calls may not run a second time: its model read the results in the log,
and reads them in the next turn; then the harness gives the id of one to another call. Written by hand. Kept to show
where the file comes from.
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
    Payload,
    PromptQueued,
    ResultTold,
    SessionOpened,
    TurnOpened,
    TurnSettled,
)
from outlast.world.commit import Commit, Header, make_commit
from tests.histories.stored import History, summary

SESSION = "extra-told"
PROMPT = Payload(json=msgspec.Raw(b'"go"'))
DONE = Payload(json=msgspec.Raw(b'"a.txt"'))


def _commit(seq: int, fence: int, *records: AnyRecord) -> Commit:
    return make_commit(Header(seq, fence, FORMAT, len(records)), encode_records(list(records)), {})


def _tool(call: int, turn: int, ordinal: int, harness_id: str, asked_by: int) -> CallIntent:
    return CallIntent(
        call, turn, "main", ordinal, "tool", "Read", PROMPT, "safe", harness_id=harness_id, runs_in="harness",
        granted=True, asked_by=asked_by,
    )  # fmt: skip


def _ask(call: int, turn: int, ordinal: int) -> CallIntent:
    match = f"m{call}"
    return CallIntent(
        call, turn, "main", ordinal, "model", "m", PROMPT, "safe", match=match, runs_in="provider"
    )


def told() -> History:
    """The whole story."""
    answered = CallOutcome(1, 1, "ok", PROMPT, "main")
    return History.of(
        SESSION,
        [
            _commit(1, 0, SessionOpened(SESSION, "tester", "codex")),
            _commit(2, 1, AttemptOpened("worker-1", at_s=1.0)),
            _commit(3, 1, PromptQueued("in-1", PROMPT), TurnOpened(1, "in-1", PROMPT, 2.0), _ask(1, 1, 0)),
            _commit(4, 1, answered, _tool(2, 1, 0, "c1", 1), _tool(3, 1, 1, "c2", 1)),
            _commit(5, 1, CallOutcome(2, 1, "ok", DONE, "main"), CallOutcome(3, 1, "error", DONE, "main")),
            _commit(6, 2, AttemptOpened("worker-2", at_s=3.0)),
            _commit(
                7,
                2,
                ResultTold(1, "c1", "ok", DONE),
                ResultTold(1, "c2", "error", DONE, shows=True),
                _ask(4, 1, 1),
            ),
            _commit(8, 2, CallOutcome(4, 1, "ok", PROMPT, "main"), TurnSettled(1, "done", PROMPT)),
            _commit(9, 3, AttemptOpened("worker-3", at_s=5.0)),
            _commit(10, 3, PromptQueued("in-2", PROMPT), TurnOpened(2, "in-2", PROMPT, 6.0), _ask(5, 2, 0)),
            _commit(11, 3, CallOutcome(5, 2, "ok", PROMPT, "main"), _tool(6, 2, 0, "c2", 5)),
            _commit(12, 3, CallOutcome(6, 2, "ok", DONE, "main")),
        ],
        {},
    )


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = told()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
